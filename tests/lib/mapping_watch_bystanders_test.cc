// SPDX-License-Identifier: Apache-2.0
// Whether the rest of the program can do what it could do if nothing watched its memory.
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

#include <atomic>
#include <catch2/catch.hpp>
#include <csignal>
#include <cstdlib>
#include <thread>
#include <vector>

#include "lib/deadline.h"
#include "lib/mapping_watch.h"
#include "lib/unique_fd.h"
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
