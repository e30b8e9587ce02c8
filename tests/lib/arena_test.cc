// SPDX-License-Identifier: Apache-2.0
#include "lib/arena.h"

#include <fcntl.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <catch2/catch.hpp>
#include <cerrno>
#include <cstdint>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <limits>
#include <random>
#include <sstream>
#include <string>
#include <utility>
#include <vector>

#include "lib/shared_memory.h"
#include "lib/unique_fd.h"
#include "tests/support/sanitizers.h"

namespace {

using rondel::Arena;
using rondel::Code;
using rondel::MemorySpan;
using rondel::Result;

constexpr std::size_t kMebibyte = std::size_t{1} << 20;

std::unique_ptr<Arena> make_arena(std::size_t initial_bytes) {
  auto arena = Arena::create(initial_bytes);
  INFO(arena.status().text());
  REQUIRE(arena.ok());
  return std::move(arena).value();
}

MemorySpan allocated(Arena& arena, std::size_t bytes) {
  auto buffer = arena.allocate(bytes);
  INFO(buffer.status().text());
  REQUIRE(buffer.ok());
  return *buffer;
}

/// How much of the mapping that begins at `data` is of huge pages.
std::size_t huge_kilobytes(const std::byte* data) {
  std::ostringstream begin;
  begin << std::hex << reinterpret_cast<std::uintptr_t>(data) << '-';
  std::ifstream maps("/proc/self/smaps");
  std::string line;
  while (std::getline(maps, line) && line.rfind(begin.str(), 0) != 0) {
  }
  while (std::getline(maps, line))
    if (line.rfind("ShmemPmdMapped:", 0) == 0) return std::stoul(line.substr(line.find(':') + 1));
  return 0;
}

/// Whether a page of shared memory can be made a huge one now.
bool kernel_gives_huge_pages() {
  constexpr std::size_t kHuge = 2 * kMebibyte;
  constexpr int kMadvCollapse = 25;
  const rondel::UniqueFd fd(::memfd_create("test", MFD_CLOEXEC));
  if (!fd || ::ftruncate(fd.get(), kHuge) != 0) return false;
  const auto mapped = rondel::map_shared(fd.get(), kHuge);
  if (!mapped.ok()) return false;
  **mapped = std::byte{1};
  const bool gives = ::madvise(*mapped, kHuge, kMadvCollapse) == 0;
  ::munmap(*mapped, kHuge);
  return gives;
}

/// Runs `body` in a child process and returns the exit code that it gives.
template <class Body>
int in_child(Body body) {
  const pid_t child = ::fork();
  REQUIRE(child >= 0);
  if (child == 0) ::_exit(body());
  int status = 0;
  REQUIRE(::waitpid(child, &status, 0) == child);
  return WIFEXITED(status) ? WEXITSTATUS(status) : 128 + WTERMSIG(status);
}

/// In a child with `resource` limited: 0 when the arena was refused for want of resources with `word` in the
/// text.
int refused_under_limit(decltype(RLIMIT_AS) resource, rlim_t limit, std::size_t bytes, const char* word) {
  return in_child([resource, limit, bytes, word] {
    const rlimit both{limit, limit};
    if (::setrlimit(resource, &both) != 0) return 2;
    const auto arena = Arena::create(bytes);
    if (arena.ok()) return 3;
    if (arena.code() != Code::out_of_resources) return 4;
    return arena.status().text().find(word) != std::string::npos ? 0 : 5;
  });
}

std::size_t open_descriptors() {
  const std::filesystem::directory_iterator entries("/proc/self/fd");
  return static_cast<std::size_t>(std::distance(begin(entries), end(entries)));
}

TEST_CASE("arena: buffers are page aligned, apart from one another and writable to the last byte") {
  const auto arena = make_arena(kMebibyte);
  std::vector<MemorySpan> buffers;
  for (const std::size_t bytes : {0U, 1U, 64U, 4095U, 4096U, 4097U, 100000U}) {
    buffers.push_back(allocated(*arena, bytes));
    CHECK(buffers.back().bytes == bytes);
    CHECK(reinterpret_cast<std::uintptr_t>(buffers.back().data) % Arena::kAlignment == 0);
    std::memset(buffers.back().data, static_cast<int>(buffers.size()), bytes);
  }
  for (std::size_t i = 0; i < buffers.size(); ++i) {
    const auto untouched = [i](std::byte byte) { return byte == static_cast<std::byte>(i + 1); };
    CHECK(std::all_of(buffers[i].data, buffers[i].data + buffers[i].bytes, untouched));
  }
}

TEST_CASE("arena: another process maps a buffer by its place, and both see each other's writes") {
  const auto arena = make_arena(4 * kMebibyte);
  allocated(*arena, 5000);
  const MemorySpan buffer = allocated(*arena, 3 * kMebibyte);
  const auto place = arena->place_of(buffer.data);
  REQUIRE(place);
  CHECK(place->offset == 8192);
  for (std::size_t i = 0; i < buffer.bytes; ++i) buffer.data[i] = static_cast<std::byte>(i * 7 + i / 4096);
  const int outcome = in_child([place, bytes = buffer.bytes] {
    void* base = ::mmap(nullptr, place->region_bytes, PROT_READ | PROT_WRITE, MAP_SHARED, place->fd, 0);
    if (base == MAP_FAILED) return 2;
    auto* seen = static_cast<std::byte*>(base) + place->offset;
    for (std::size_t i = 0; i < bytes; ++i)
      if (seen[i] != static_cast<std::byte>(i * 7 + i / 4096)) return 3;
    std::memset(seen, 0x5A, bytes);
    return 0;
  });
  REQUIRE(outcome == 0);
  const auto written = [](std::byte byte) { return byte == std::byte{0x5A}; };
  CHECK(std::all_of(buffer.data, buffer.data + buffer.bytes, written));
}

TEST_CASE("arena: places are exact for inner addresses and refused for strangers") {
  const auto arena = make_arena(kMebibyte);
  const MemorySpan first = allocated(*arena, 10000);
  const MemorySpan second = allocated(*arena, 10000);
  const auto base = arena->place_of(first.data), inner = arena->place_of(second.data + 777);
  REQUIRE((base && inner));
  CHECK(inner->fd == base->fd);
  CHECK(inner->region == base->region);
  CHECK(inner->offset - base->offset == static_cast<std::size_t>(second.data + 777 - first.data));
  int stranger = 0;
  CHECK_FALSE(arena->place_of(&stranger));
  CHECK_FALSE(arena->place_of(nullptr));
  CHECK_FALSE(arena->place_of(first.data - 1));
  CHECK_FALSE(arena->place_of(first.data - base->offset + base->region_bytes));
}

TEST_CASE("arena: nobody can change the size of the memory under others") {
  const auto arena = make_arena(kMebibyte);
  const auto place = arena->place_of(allocated(*arena, 1).data);
  REQUIRE(place);
  CHECK(::ftruncate(place->fd, 0) == -1);
  CHECK(errno == EPERM);
  CHECK(::ftruncate(place->fd, static_cast<off_t>(place->region_bytes * 2)) == -1);
  CHECK((::fcntl(place->fd, F_GET_SEALS) & F_SEAL_SHRINK) != 0);
  CHECK((::fcntl(place->fd, F_GETFD) & FD_CLOEXEC) != 0);
}

#if !UNDER_THREAD_SANITIZER  // its shadow memory faults for every page that is touched
TEST_CASE("arena: every page is present before the first touch") {
  const auto arena = make_arena(3 * kMebibyte);
  const MemorySpan buffer = allocated(*arena, 3 * kMebibyte);
  std::vector<unsigned char> present(buffer.bytes / Arena::kAlignment);
  rusage before{}, after{};
  REQUIRE(::mincore(buffer.data, buffer.bytes, present.data()) == 0);
  CHECK(std::all_of(present.begin(), present.end(), [](unsigned char page) { return (page & 1U) != 0; }));
  ::getrusage(RUSAGE_SELF, &before);
  for (std::size_t at = 0; at < buffer.bytes; at += Arena::kAlignment) buffer.data[at] = std::byte{1};
  ::getrusage(RUSAGE_SELF, &after);
  CHECK(after.ru_minflt - before.ru_minflt < 16);  // of 768 pages
}
#endif

TEST_CASE("arena: large memory is of huge pages, here and where it is mapped, if the kernel can at all") {
  constexpr std::size_t kBytes = 8 * kMebibyte;
  const bool can_before = kernel_gives_huge_pages();
  auto arena = make_arena(kBytes);
  const MemorySpan buffer = allocated(*arena, kBytes);
  const auto mapped = rondel::map_shared(arena->place_of(buffer.data)->fd, kBytes);
  REQUIRE(mapped.ok());
  (void)::madvise(*mapped, kBytes, MADV_POPULATE_WRITE);
  const bool everywhere =
      huge_kilobytes(buffer.data) == kBytes / 1024 && huge_kilobytes(*mapped) == kBytes / 1024;
  ::munmap(*mapped, kBytes);
  if (!can_before || !kernel_gives_huge_pages()) {
    WARN("skipped: the kernel makes no huge pages of shared memory (Linux 6.1, or memory is in pieces)");
    return;
  }
  CHECK(everywhere);
}

TEST_CASE("arena: released room is merged and used again") {
  const auto arena = make_arena(2 * kMebibyte);
  const std::size_t reserved = arena->reserved_bytes();
  const MemorySpan whole = allocated(*arena, reserved);
  const auto place = arena->place_of(whole.data);
  arena->release(whole);
  std::vector<MemorySpan> buffers;
  while (buffers.size() < reserved / 8192) buffers.push_back(allocated(*arena, 8192));
  CHECK(arena->reserved_bytes() == reserved);
  std::mt19937 random(5);
  std::shuffle(buffers.begin(), buffers.end(), random);
  for (const MemorySpan& buffer : buffers) arena->release(buffer);
  const MemorySpan again = allocated(*arena, reserved);
  CHECK(again.data == whole.data);
  CHECK(arena->place_of(again.data)->region == place->region);
  CHECK(arena->reserved_bytes() == reserved);
}

TEST_CASE("arena: grows beyond its first bytes and gives the growth back, but keeps what it began with") {
  const auto arena = make_arena(kMebibyte);
  const std::size_t initial = arena->reserved_bytes();
  const std::size_t descriptors = open_descriptors();
  const MemorySpan small = allocated(*arena, 1);
  const MemorySpan large = allocated(*arena, 5 * kMebibyte);
  const auto small_place = arena->place_of(small.data), large_place = arena->place_of(large.data);
  CHECK(small_place->region != large_place->region);
  CHECK(small_place->fd != large_place->fd);
  CHECK(arena->reserved_bytes() >= initial + 5 * kMebibyte);
  arena->release(large);
  CHECK(arena->reserved_bytes() == initial);
  CHECK(open_descriptors() == descriptors);
  CHECK_FALSE(arena->place_of(large.data));
  arena->release(small);
  CHECK(arena->reserved_bytes() == initial);
  const MemorySpan later = allocated(*arena, 5 * kMebibyte);
  CHECK(arena->place_of(later.data)->region > large_place->region);
}

TEST_CASE("arena: an empty one holds nothing until it is asked, and nothing after") {
  const auto arena = make_arena(0);
  CHECK(arena->reserved_bytes() == 0);
  const MemorySpan buffer = allocated(*arena, 10);
  CHECK(arena->reserved_bytes() == 4096);
  arena->release(buffer);
  CHECK(arena->reserved_bytes() == 0);
}

TEST_CASE("arena: random allocations and releases never overlap and keep their contents") {
  constexpr unsigned kSeed = 99;
  INFO("seed " << kSeed);
  std::mt19937 random(kSeed);
  const auto arena = make_arena(2 * kMebibyte);
  std::vector<std::pair<MemorySpan, unsigned char>> live;
  for (unsigned round = 0; round < 2000; ++round) {
    if (live.empty() || random() % 5 < 3) {
      const auto mark = static_cast<unsigned char>(round);
      live.emplace_back(allocated(*arena, 1 + random() % 40000), mark);
      std::memset(live.back().first.data, mark, live.back().first.bytes);
    }
    if (live.size() > 60 || random() % 5 == 0) {
      std::swap(live[random() % live.size()], live.back());
      const auto [buffer, mark] = live.back();
      live.pop_back();
      REQUIRE(std::count(buffer.data, buffer.data + buffer.bytes, static_cast<std::byte>(mark)) ==
              static_cast<std::ptrdiff_t>(buffer.bytes));
      arena->release(buffer);
    }
  }
  while (!live.empty()) {
    arena->release(live.back().first);
    live.pop_back();
  }
  CHECK(arena->reserved_bytes() == 2 * kMebibyte);
}

TEST_CASE("arena: its pages are given back when it goes, whoever has it mapped") {
  rondel::UniqueFd other;
  {
    const auto arena = Arena::create(0).value();
    const MemorySpan buffer = arena->allocate(kMebibyte).value();
    other = rondel::UniqueFd(::dup(arena->place_of(buffer.data)->fd));
    struct stat facts {};
    REQUIRE(::fstat(other.get(), &facts) == 0);
    CHECK(facts.st_blocks * 512 >= static_cast<long>(kMebibyte));
  }
  struct stat facts {};
  REQUIRE(::fstat(other.get(), &facts) == 0);
  CHECK(facts.st_blocks == 0);
}

TEST_CASE("arena: leaves no descriptor and no mapping behind") {
  const std::size_t before = open_descriptors();
  std::byte* last = nullptr;
  for (int round = 0; round < 200; ++round) {
    const auto arena = make_arena(kMebibyte);
    last = allocated(*arena, 1).data;
    allocated(*arena, 3 * kMebibyte);
  }
  CHECK(open_descriptors() == before);
  unsigned char present = 0;
  CHECK(::mincore(last, 4096, &present) == -1);
}

TEST_CASE("arena: a limit that is met is named, and nothing is killed") {
  CHECK(refused_under_limit(RLIMIT_FSIZE, kMebibyte, 64 * kMebibyte, "ulimit -f") == 0);
  CHECK(refused_under_limit(RLIMIT_NOFILE, 3, kMebibyte, "ulimit -n") == 0);
#if !UNDER_ADDRESS_SANITIZER && !UNDER_THREAD_SANITIZER  // their shadow exceeds any such limit
  CHECK(refused_under_limit(RLIMIT_AS, 256 * kMebibyte, 512 * kMebibyte, "ulimit -v") == 0);
#endif
}

TEST_CASE("arena: more than the machine has is refused before it is tried") {
  const auto arena = make_arena(0);
  for (const std::size_t bytes : {std::size_t{1} << 46, std::size_t{1} << 62}) {
    const Result<MemorySpan> buffer = arena->allocate(bytes);
    CHECK(buffer.code() == Code::out_of_resources);
    CHECK(buffer.status().text().find("available") != std::string::npos);
  }
  CHECK(arena->allocate(std::numeric_limits<std::size_t>::max()).code() == Code::invalid_argument);
  CHECK(arena->reserved_bytes() == 0);
  CHECK(arena->allocate(4096).ok());
}

}  // namespace
