// SPDX-License-Identifier: Apache-2.0
// Whether every way in which memory can become other memory is noticed, at once, and nothing else.
#include "lib/mapping_watch.h"

#include <fcntl.h>
#include <linux/userfaultfd.h>
#include <malloc.h>
#include <pthread.h>
#include <sched.h>
#include <sys/ioctl.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <catch2/catch.hpp>
#include <cerrno>
#include <csignal>
#include <cstdlib>
#include <cstring>
#include <deque>
#include <functional>
#include <string>
#include <thread>
#include <vector>

#include "lib/deadline.h"
#include "lib/system_files.h"
#include "lib/unique_fd.h"
#include "tests/support/sanitizers.h"
#include "tests/support/seed.h"

namespace rondel {
namespace {

using rondel::test::Random;

const std::size_t kPage = static_cast<std::size_t>(::sysconf(_SC_PAGESIZE));

/// Null where this process may not watch its memory, which is said.
std::shared_ptr<MappingWatch> watch_or_skip() {
  auto watch = MappingWatch::of_process();
  if (watch.ok()) return *std::move(watch);
  WARN("skipped: " << watch.status().text());
  return nullptr;
}

/// Pages of their own, between two that nothing can merge with, all touched.
class Pages {
 public:
  explicit Pages(std::size_t count)
      : bytes_(count * kPage),
        all_(static_cast<std::byte*>(
            ::mmap(nullptr, bytes_ + 2 * kPage, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0))) {
    REQUIRE(::mmap(data(), bytes_, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_FIXED, -1, 0) ==
            data());
    std::memset(data(), 1, bytes_);
  }
  ~Pages() { ::munmap(all_, bytes_ + 2 * kPage); }
  Pages(const Pages&) = delete;
  Pages& operator=(const Pages&) = delete;

  std::byte* data() const { return all_ + kPage; }
  std::byte* page(std::size_t number) const { return data() + number * kPage; }
  std::size_t bytes() const { return bytes_; }

 private:
  const std::size_t bytes_;
  std::byte* const all_;
};

void remap(std::byte* at, std::size_t bytes) {
  CHECK(::mmap(at, bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_FIXED, -1, 0) == at);
}

/// The program's own userfaultfd.
class OtherWatch {
 public:
  OtherWatch() : fd_(static_cast<int>(::syscall(SYS_userfaultfd, O_CLOEXEC | UFFD_USER_MODE_ONLY))) {
    uffdio_api api{.api = UFFD_API, .features = UFFD_FEATURE_PAGEFAULT_FLAG_WP, .ioctls = 0};
    REQUIRE(::ioctl(fd_.get(), UFFDIO_API, &api) == 0);
  }
  bool begin(const std::byte* data, std::size_t bytes) const {
    uffdio_register pages{.range = range(data, bytes), .mode = UFFDIO_REGISTER_MODE_WP, .ioctls = 0};
    return ::ioctl(fd_.get(), UFFDIO_REGISTER, &pages) == 0;
  }
  /// The kernel refuses this for pages that are not this watch's.
  bool has(const std::byte* data, std::size_t bytes) const {
    uffdio_writeprotect nothing{.range = range(data, bytes), .mode = UFFDIO_WRITEPROTECT_MODE_DONTWAKE};
    return ::ioctl(fd_.get(), UFFDIO_WRITEPROTECT, &nothing) == 0;
  }

 private:
  static uffdio_range range(const std::byte* data, std::size_t bytes) {
    return {.start = reinterpret_cast<std::uintptr_t>(data), .len = bytes};
  }
  const UniqueFd fd_;
};

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

TEST_CASE("memory that the program watches itself stays watched for it") {
  const auto watch = watch_or_skip();
  if (watch == nullptr) return;
  const Pages pages(8);
  const OtherWatch other;
  SECTION("already") {
    REQUIRE(other.begin(pages.data(), pages.bytes()));
    CHECK_FALSE(MappingWatch::begin(watch, pages.data(), pages.bytes()));
    CHECK_FALSE(MappingWatch::begin(watch, pages.page(2), kPage));
  }
  SECTION("since it was mapped anew") {
    auto watched = MappingWatch::begin(watch, pages.data(), pages.bytes());
    REQUIRE(watched);
    remap(pages.data(), pages.bytes());
    REQUIRE(other.begin(pages.data(), pages.bytes()));
    watched = {};
  }
  SECTION("since a part of it was moved away") {
    auto watched = MappingWatch::begin(watch, pages.data(), pages.bytes());
    REQUIRE(watched);
    const Pages place(4);
    REQUIRE(::mremap(pages.page(2), 4 * kPage, 4 * kPage, MREMAP_MAYMOVE | MREMAP_FIXED, place.data()) ==
            place.data());
    remap(pages.page(2), 4 * kPage);
    REQUIRE(other.begin(pages.page(2), 4 * kPage));
    watched = {};
    CHECK(other.has(pages.page(2), 4 * kPage));
    return;
  }
  CHECK(other.has(pages.data(), pages.bytes()));
}

TEST_CASE("memory that was watched can be moved and made longer, more than once") {
  const auto watch = watch_or_skip();
  if (watch == nullptr) return;
  const std::size_t bytes = 16 * kPage;
  void* memory = ::mmap(nullptr, bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  REQUIRE(memory != MAP_FAILED);
  auto watched = MappingWatch::begin(watch, memory, bytes);
  REQUIRE(watched);
  for (std::size_t longer = bytes; longer <= 4 * bytes; longer *= 2) {
    const Pages in_the_way(1);
    memory = ::mremap(memory, longer, 2 * longer, MREMAP_MAYMOVE);
    REQUIRE(memory != MAP_FAILED);
  }
  ::munmap(memory, 8 * bytes);
  CHECK_FALSE(watched.intact());
}

// By mistake, or on its way to become a daemon.
TEST_CASE("a program that closes the watch's descriptor can go on changing its memory") {
  const auto watch = watch_or_skip();
  if (watch == nullptr) return;
  const bool used_again = GENERATE(false, true);
  const pid_t child = UNDER_THREAD_SANITIZER ? -1 : ::fork();
  if (child < 0) return;
  if (child == 0) {
    ::alarm(20);
    auto own = MappingWatch::of_process();
    if (!own.ok()) ::_exit(1);
    const Pages pages(4);
    auto watched = MappingWatch::begin(*own, pages.data(), pages.bytes());
    if (!watched) ::_exit(2);
    ::close_range(3, ~0U, 0);
    int ends[2] = {-1, -1};
    for (int i = 0; used_again && i < 20; ++i)
      if (::pipe(ends) != 0 || ::write(ends[1], "unread", 6) != 6) ::_exit(3);
    ::munmap(pages.data(), pages.bytes());
    if (watched.intact()) ::_exit(4);
    watched = {};
    *own = nullptr;
    char read[7] = {};
    if (used_again && ::read(ends[0], read, 6) != 6) ::_exit(5);
    ::_exit(0);
  }
  int status = -1;
  REQUIRE(::waitpid(child, &status, 0) == child);
  CHECK(status == 0);
}

TEST_CASE("memory that is watched no more can be watched by the program") {
  const auto watch = watch_or_skip();
  if (watch == nullptr) return;
  const Pages pages(8);
  const OtherWatch other;
  const bool emptied = GENERATE(false, true);
  auto watched = MappingWatch::begin(watch, pages.data(), pages.bytes());
  REQUIRE(watched);
  CHECK_FALSE(other.begin(pages.data(), pages.bytes()));
  if (emptied) REQUIRE(::madvise(pages.page(1), kPage, MADV_DONTNEED) == 0);
  CHECK(watched.intact() != emptied);
  watched = {};
  CHECK(other.begin(pages.data(), pages.bytes()));
}

TEST_CASE("a child takes nothing away from its parent's watch") {
  const auto watch = watch_or_skip();
  if (watch == nullptr) return;
  const Pages pages(4);
  auto watched = MappingWatch::begin(watch, pages.data(), pages.bytes());
  REQUIRE(watched);
  const pid_t child = ::fork();
  if (child == 0) {
    watched = {};
    if (UNDER_THREAD_SANITIZER) ::_exit(0);  // it allows a child no threads
    const auto own = MappingWatch::of_process();
    const auto again = own.ok() ? MappingWatch::begin(*own, pages.data(), kPage) : MappingWatch::Watched();
    remap(pages.data(), kPage);
    ::_exit(again && !again.intact() ? 0 : 1);
  }
  int status = -1;
  REQUIRE(::waitpid(child, &status, 0) == child);
  CHECK(status == 0);
  CHECK(watched.intact());
  remap(pages.data(), kPage);
  CHECK_FALSE(watched.intact());
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
    REQUIRE(watched);
    std::thread unmapper([&pages] { ::munmap(pages.data(), kPage); });
    while (::mmap(pages.data(), kPage, PROT_READ | PROT_WRITE,
                  MAP_PRIVATE | MAP_ANONYMOUS | MAP_FIXED_NOREPLACE, -1, 0) == MAP_FAILED) {
    }
    if (watched.intact()) ++intact;
    unmapper.join();
  }
  over = true;
  changer.join();
  CHECK(intact == 0);
}

volatile std::sig_atomic_t stops_asked = 0;
std::atomic<int> stops{0};

// In a child, because who hangs in such a change can only be killed.
TEST_CASE("memory can be given back while all other threads are stopped wherever they are") {
  const auto watch = UNDER_THREAD_SANITIZER ? nullptr : watch_or_skip();  // it delays signals
  if (watch == nullptr) return;
  const pid_t child = ::fork();
  if (child == 0) {
    ::alarm(20);
    const auto own = MappingWatch::of_process();
    if (!own.ok()) ::_exit(1);
    const Pages pages(8);
    const auto kept = MappingWatch::begin(*own, pages.page(0), kPage);
    // As garbage collectors do it: until it is told to go on.
    std::signal(SIGUSR1, [](int) {
      const int mine = stops_asked;
      stops = mine;
      while (stops_asked == mine) ::sched_yield();
    });
    std::atomic<bool> over{false};
    std::thread user([&] {
      while (!over) {
        const auto watched = MappingWatch::begin(*own, pages.page(2), 4 * kPage);
        for (int look = 0; look < 10; ++look) static_cast<void>(watched.intact());
      }
    });
    Random random(test::test_seed());
    for (int round = 1; round <= 3000; ++round) {
      const Deadline meanwhile = Deadline::in(std::chrono::microseconds(random.below(100)));
      while (!meanwhile.passed()) ::sched_yield();
      stops_asked = round;
      ::pthread_kill(user.native_handle(), SIGUSR1);
      while (stops != round) ::sched_yield();
      ::madvise(pages.page(0), kPage, MADV_DONTNEED);
      stops_asked = -round;
    }
    over = true;
    user.join();
    ::_exit(kept.intact() ? 2 : 0);
  }
  int status = -1;
  REQUIRE(::waitpid(child, &status, 0) == child);
  CHECK(status == 0);
}

// An allocator unmaps under its own locks, and must not wait for anyone who allocates.
TEST_CASE("threads that free watched memory and threads that watch do not wait for one another") {
  const auto watch = watch_or_skip();
  if (watch == nullptr) return;
  constexpr std::size_t kBytes = 200'000;  // malloc maps each alone
  ::mallopt(M_MMAP_THRESHOLD, 100'000);
  ::mallopt(M_TRIM_THRESHOLD, 0);
  std::vector<std::thread> threads;
  threads.reserve(4);
  for (int i = 0; i < 4; ++i)
    threads.emplace_back([&watch] {
      for (int round = 0; round < 1500; ++round) {
        std::vector<char> small(3000);
        const auto of_heap = MappingWatch::begin(watch, small.data(), small.size());
        std::vector<char> large(kBytes);
        const auto watched = MappingWatch::begin(watch, large.data(), large.size());
        large = std::vector<char>();
        // Sanitizers keep what is freed for a while.
        if (!UNDER_ADDRESS_SANITIZER && !UNDER_THREAD_SANITIZER && watched.intact()) std::abort();
      }
    });
  for (std::thread& thread : threads) thread.join();
}

}  // namespace
}  // namespace rondel
