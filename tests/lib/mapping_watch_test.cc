// SPDX-License-Identifier: Apache-2.0
// Whether every way in which memory can become other memory is noticed, at once, and nothing else.
#include "lib/mapping_watch.h"

#include <fcntl.h>
#include <malloc.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <catch2/catch.hpp>
#include <cerrno>
#include <cstdlib>
#include <cstring>
#include <deque>
#include <functional>
#include <string>
#include <thread>
#include <vector>

#include "lib/system_files.h"
#include "tests/lib/watched_pages.h"
#include "tests/support/sanitizers.h"
#include "tests/support/seed.h"

namespace rondel {
namespace {

using test::kPage;
using test::Pages;
using test::Random;
using test::remap;
using test::watch_or_skip;

constexpr std::string_view kMaps =
    "1000-3000 rw-p 00000000 00:00 0 \n"
    "3000-4000 r--p 00000000 00:00 0                          [heap]\n"
    "5000-6000 rw-s 00000000 00:01 17                         /memfd:x (deleted)\n"
    "6000-7000 rw-p 00000000 08:01 99                         /lib/a b.so\n"
    "7000-8000 rw-p 00000000 00:00 0 \n"
    "8000-9000 rw-s 00000000 00:00 0 \n"
    "nonsense\n"
    "9000-a000 rw-p 00000000 00:00 0";

TEST_CASE("private memory is told from a file's, from shared memory and from gaps") {
  CHECK(is_private_memory(kMaps, 0x1000, 0x2000));
  CHECK(is_private_memory(kMaps, 0x2000, 0x4000));  // of two mappings
  CHECK_FALSE(is_private_memory(kMaps, 0x2000, 0x5000));
  CHECK_FALSE(is_private_memory(kMaps, 0x4000, 0x5000));
  CHECK_FALSE(is_private_memory(kMaps, 0x5000, 0x6000));
  CHECK_FALSE(is_private_memory(kMaps, 0x6000, 0x7000));
  CHECK_FALSE(is_private_memory(kMaps, 0x6000, 0x8000));
  CHECK(is_private_memory(kMaps, 0x7000, 0x8000));
  CHECK_FALSE(is_private_memory(kMaps, 0x7000, 0x9000));
  CHECK(is_private_memory(kMaps, 0x9000, 0xa000));
  CHECK_FALSE(is_private_memory(kMaps, 0x9000, 0xb000));
  CHECK_FALSE(is_private_memory("", 0x1000, 0x2000));
}

TEST_CASE("the system's own list of mappings is understood") {
  const std::vector<char> heap(5 * kPage);
  const std::string maps = whole_text("/proc/self/maps", std::size_t{64} << 20);
  const auto at = reinterpret_cast<std::uintptr_t>(heap.data());
  const auto code = reinterpret_cast<std::uintptr_t>(&MappingWatch::of_process);
  CHECK(is_private_memory(maps, at, at + heap.size()));
  CHECK_FALSE(is_private_memory(maps, code, code + 1));
}

TEST_CASE("kernels that do not tell of all changes are known by their release") {
  for (const char* const old :
       {"5.18.19", "5.10.0-32-amd64", "4.19.0", "5.9", "5", "5.", "6", "", "x", "x.19"}) {
    INFO(old);
    CHECK_FALSE(tells_of_all_changes(old));
  }
  for (const char* const fit :
       {"5.19.0", "5.19", "5.20-rc1", "6.0.0", "6.1.0-57-amd64", "6.18.44+", "10.2"}) {
    INFO(fit);
    CHECK(tells_of_all_changes(fit));
  }
}

TEST_CASE("what is only used stays the same memory") {
  const auto watch = watch_or_skip();
  if (watch == nullptr) return;
  const Pages pages(8);
  const auto watched = MappingWatch::begin(watch, pages.page(2) + 100, 3 * kPage);  // of four pages
  REQUIRE(watched);
  std::memset(pages.data(), 2, pages.bytes());
  const pid_t child = ::fork();
  if (child == 0) {
    std::memset(pages.data(), 3, pages.bytes());
    remap(pages.data(), pages.bytes());
    ::_exit(0);
  }
  int status = -1;
  REQUIRE(::waitpid(child, &status, 0) == child);
  CHECK(status == 0);
  CHECK(::mprotect(pages.data(), pages.bytes(), PROT_READ) == 0);
  CHECK(::mprotect(pages.data(), pages.bytes(), PROT_READ | PROT_WRITE) == 0);
  // The neighbours are not watched.
  CHECK(::munmap(pages.page(1), kPage) == 0);
  CHECK(::madvise(pages.page(6), 2 * kPage, MADV_DONTNEED) == 0);
  CHECK(watched.intact());
  CHECK(watch->changes() == 0);
}

struct Change {
  const char* name;
  std::function<void(const Pages&)> make;  // of pages 2 to 5, at least one
};

const std::vector<Change> kChanges{
    {"unmapped", [](const Pages& pages) { CHECK(::munmap(pages.data(), pages.bytes()) == 0); }},
    {"first page unmapped", [](const Pages& pages) { CHECK(::munmap(pages.page(2), kPage) == 0); }},
    {"last page unmapped", [](const Pages& pages) { CHECK(::munmap(pages.page(5), kPage) == 0); }},
    {"mapped over", [](const Pages& pages) { remap(pages.page(3), kPage); }},
    {"unmapped and mapped again",
     [](const Pages& pages) {
       CHECK(::munmap(pages.data(), pages.bytes()) == 0);
       remap(pages.data(), pages.bytes());
     }},
    {"given back", [](const Pages& pages) { CHECK(::madvise(pages.page(4), kPage, MADV_DONTNEED) == 0); }},
    {"given back at leisure",
     [](const Pages& pages) { CHECK(::madvise(pages.page(4), kPage, MADV_FREE) == 0); }},
    {"moved",
     [](const Pages& pages) {
       void* const to = ::mremap(pages.page(2), 4 * kPage, 8 * kPage, MREMAP_MAYMOVE);
       REQUIRE(to != MAP_FAILED);
       remap(pages.page(2), 4 * kPage);
       CHECK(::munmap(to, 8 * kPage) == 0);
     }},
    {"made shorter",
     [](const Pages& pages) { CHECK(::mremap(pages.page(2), 4 * kPage, 3 * kPage, 0) == pages.page(2)); }},
    {"moved over",
     [](const Pages& pages) {
       const Pages other(1);
       CHECK(::mremap(other.data(), kPage, kPage, MREMAP_MAYMOVE | MREMAP_FIXED, pages.page(3)) ==
             pages.page(3));
       remap(other.data(), kPage);
     }},
};

TEST_CASE("every change is noticed when the call that made it has returned") {
  const auto watch = watch_or_skip();
  if (watch == nullptr) return;
  for (const Change& change : kChanges) {
    INFO(change.name);
    const Pages pages(8);
    const auto watched = MappingWatch::begin(watch, pages.page(2), 4 * kPage);
    REQUIRE(watched);
    CHECK(watched.intact());
    const std::uint64_t before = watch->changes();
    change.make(pages);
    CHECK_FALSE(watched.intact());
    CHECK(watch->changes() == before + 1);
  }
}

bool has_malloc_of_libc() {
  if (UNDER_ADDRESS_SANITIZER || UNDER_THREAD_SANITIZER)
    WARN("skipped: sanitizers have a malloc of their own");
  return !UNDER_ADDRESS_SANITIZER && !UNDER_THREAD_SANITIZER;
}

TEST_CASE("memory of malloc is noticed to go") {
  const auto watch = has_malloc_of_libc() ? watch_or_skip() : nullptr;
  if (watch == nullptr) return;
  constexpr std::size_t kBytes = std::size_t{48} << 20;  // beyond what malloc keeps for later
  void* memory = std::malloc(kBytes);
  auto watched = MappingWatch::begin(watch, memory, kBytes);
  REQUIRE(watched);
  CHECK(watched.intact());
  std::free(memory);
  CHECK_FALSE(watched.intact());
  memory = std::malloc(kBytes);
  watched = MappingWatch::begin(watch, memory, kBytes);
  memory = std::realloc(memory, 2 * kBytes);
  REQUIRE(memory != nullptr);
  std::free(memory);
  CHECK_FALSE(watched.intact());
}

TEST_CASE("memory of malloc can grow though a part of it is watched") {
  const auto watch = has_malloc_of_libc() ? watch_or_skip() : nullptr;
  if (watch == nullptr) return;
  constexpr std::size_t kBytes = std::size_t{48} << 20;
  auto* memory = static_cast<char*>(std::malloc(kBytes));
  std::memset(memory, 7, kBytes);
  const auto watched = MappingWatch::begin(watch, memory + kBytes / 2, 100 * kPage);
  REQUIRE(watched);
  memory = static_cast<char*>(std::realloc(memory, 2 * kBytes));
  REQUIRE(memory != nullptr);
  CHECK(std::all_of(memory, memory + kBytes, [](char c) { return c == 7; }));
  CHECK_FALSE(watched.intact());
  std::free(memory);
}

TEST_CASE("pieces may share pages; each is watched until it ends itself") {
  const auto watch = watch_or_skip();
  if (watch == nullptr) return;
  const Pages pages(8);
  auto first = MappingWatch::begin(watch, pages.page(0), 5 * kPage);
  auto second = MappingWatch::begin(watch, pages.page(3), 5 * kPage);
  auto inner = MappingWatch::begin(watch, pages.page(4), kPage);
  REQUIRE((first && second && inner));
  inner = {};
  first = {};
  CHECK(::madvise(pages.page(1), kPage, MADV_DONTNEED) == 0);  // nobody's any more
  CHECK(second.intact());
  CHECK(::madvise(pages.page(4), kPage, MADV_DONTNEED) == 0);
  CHECK_FALSE(second.intact());
}

TEST_CASE("any pieces, begun and ended in any order, know of the changes to their own pages") {
  const auto watch = watch_or_skip();
  if (watch == nullptr) return;
  constexpr std::size_t kPages = 16;
  constexpr std::size_t kPieces = 6;
  struct Piece {
    std::size_t begin = 0;
    std::size_t end = 0;
    bool changed = false;
    MappingWatch::Watched watched;
  };
  Random random(test::test_seed());
  const Pages pages(kPages);
  std::vector<Piece> pieces(kPieces);
  for (int step = 0; step < 3000; ++step) {
    Piece& piece = pieces[random.below(kPieces)];
    const std::size_t begin = random.below(kPages);
    const std::size_t end = begin + 1 + random.below(kPages - begin);
    if (random.happens(0.4)) {
      piece.watched = {};
      if (random.happens(0.7))
        piece = {begin, end, false, MappingWatch::begin(watch, pages.page(begin), (end - begin) * kPage)};
      REQUIRE((!piece.watched || !piece.changed));
      continue;
    }
    if (random.happens(0.5))
      remap(pages.page(begin), (end - begin) * kPage);
    else
      REQUIRE(::madvise(pages.page(begin), (end - begin) * kPage, MADV_DONTNEED) == 0);
    for (Piece& each : pieces) {
      each.changed |= begin < each.end && each.begin < end;
      if (each.watched) REQUIRE(each.watched.intact() == !each.changed);
    }
  }
}

TEST_CASE("memory that can be changed without news is not watched") {
  const auto watch = watch_or_skip();
  if (watch == nullptr) return;
  const int fd = ::memfd_create("mapping-watch-test", MFD_CLOEXEC);
  REQUIRE(fd >= 0);
  REQUIRE(::ftruncate(fd, static_cast<off_t>(kPage)) == 0);
  for (const int sharing : {MAP_SHARED, MAP_PRIVATE}) {
    void* const file = ::mmap(nullptr, kPage, PROT_READ | PROT_WRITE, sharing, fd, 0);
    REQUIRE(file != MAP_FAILED);
    CHECK_FALSE(MappingWatch::begin(watch, file, kPage));
    ::munmap(file, kPage);
  }
  ::close(fd);
  void* const shared = ::mmap(nullptr, kPage, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
  CHECK_FALSE(MappingWatch::begin(watch, shared, kPage));
  ::munmap(shared, kPage);
  CHECK_FALSE(MappingWatch::begin(watch, shared, kPage));  // nothing there
}

TEST_CASE("there is an end to what can be watched, and room again after it") {
  const auto watch = watch_or_skip();
  if (watch == nullptr) return;
  const Pages pages(1);
  std::deque<MappingWatch::Watched> all;
  for (std::size_t i = 0; i < MappingWatch::kMost; ++i) {
    all.push_back(MappingWatch::begin(watch, pages.data(), kPage));
    REQUIRE(all.back());
  }
  CHECK_FALSE(MappingWatch::begin(watch, pages.data(), kPage));
  all.pop_front();
  CHECK(MappingWatch::begin(watch, pages.data(), kPage));
}

// The hard case: another thread gets the address while the one that unmapped is still in its call.
TEST_CASE("who gets an address that was just unmapped never finds it intact") {
  const auto watch = watch_or_skip();
  if (watch == nullptr) return;
  const Pages pages(1);
  const bool others = GENERATE(false, true);
  const Pages elsewhere(1);
  const auto other = MappingWatch::begin(watch, elsewhere.data(), kPage);
  std::atomic<bool> over{false};
  std::thread changer([&] {
    while (others && !over) ::madvise(elsewhere.data(), kPage, MADV_DONTNEED);
  });
  int intact = 0;
  for (int round = 0; round < (others ? 300 : 2000); ++round) {
    const auto watched = MappingWatch::begin(watch, pages.data(), kPage);
    CHECK(watched);
    std::thread unmapper([&pages] { ::munmap(pages.data(), kPage); });
    while (::mmap(pages.data(), kPage, PROT_READ | PROT_WRITE,
                  MAP_PRIVATE | MAP_ANONYMOUS | MAP_FIXED_NOREPLACE, -1, 0) == MAP_FAILED) {
    }
    if (watched && watched.intact()) ++intact;
    unmapper.join();
  }
  over = true;
  changer.join();
  CHECK(intact == 0);
}

}  // namespace
}  // namespace rondel
