// SPDX-License-Identifier: Apache-2.0
// Reading a process's memory is tried before it is relied upon; where the kernel forbids it the lane is used.
#include "transports/shm/pull.h"

#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include <atomic>
#include <catch2/catch.hpp>
#include <cerrno>
#include <fstream>
#include <new>
#include <thread>

#include "lib/arena.h"
#include "tests/support/forbidden_call.h"
#include "tests/support/process_world.h"
#include "tests/support/sanitizers.h"
#include "tests/transports/shm/world.h"

namespace rondel::shm::test {
namespace {

bool forbid_pulling(int error = EPERM) { return rondel::test::forbid_call(SYS_process_vm_readv, error); }

// For other processes of one user; each rank becomes such a user, as root may read everything but under 3.
int yama_scope() {
  std::ifstream file("/proc/sys/kernel/yama/ptrace_scope");
  int scope = 0;
  return file >> scope ? scope : 0;
}
/// False in a container whose root can not.
bool become_a_user() {
  constexpr uid_t kSomebody = 54'321;
  if (::geteuid() != 0) return true;
  // Who changes its user is hidden from others of that user, too, until it says otherwise.
  return ::setresuid(kSomebody, kSomebody, kSomebody) == 0 && ::prctl(PR_SET_DUMPABLE, 1) == 0;
}

}  // namespace

TEST_CASE("what is there is found; a wrong value, a wrong place and an unseen process are not") {
  const std::uint64_t value = 0x123456789abcdef0;
  const auto address = reinterpret_cast<std::uintptr_t>(&value);
  CHECK(can_pull(::getpid(), address, value));
  CHECK_FALSE(can_pull(::getpid(), address, value + 1));
  CHECK_FALSE(can_pull(::getpid(), 4096, value));
  CHECK_FALSE(can_pull(0, address, value));
}

TEST_CASE("the memory of a process that has gone is a lost peer") {
  const pid_t child = ::fork();
  if (child == 0) ::_exit(0);
  REQUIRE(child > 0);
  int status = 0;
  REQUIRE(::waitpid(child, &status, 0) == child);
  std::byte into[8];
  CHECK(pull(child, reinterpret_cast<std::uintptr_t>(into), into).code() == Code::peer_lost);
}

TEST_CASE("where reading is forbidden, everything goes through the lane") {
  const int error = GENERATE(EPERM, ENOSYS);  // by a container, by a kernel that has no such call
  rondel::test::ProcessWorld world(1, [error](rondel::test::RankTest& test, const rondel::test::Voice&) {
    test.require(forbid_pulling(error), "a filter on system calls");
    std::byte byte{};
    test.expect(!pull(::getpid(), reinterpret_cast<std::uintptr_t>(&byte), {&byte, 1}).ok(),
                "it is forbidden");
    Pair pair = connected_pair();
    std::vector<std::byte> from(1'000'000), to(from.size());
    fill(from, 4);
    test.expect_equal(transfer(pair, {from.data(), from.size()}, {to.data(), to.size()}), std::string(),
                      "transfer");
    test.expect(holds(to, 4), "the bytes");
  });
  const auto ending = world.wait(0, Deadline::in(std::chrono::seconds(30)));
  INFO(ending.words);
  CHECK(ending.exit_code == 0);
}

TEST_CASE("where reading is forbidden later, what was offered is copied after all") {
  rondel::test::ProcessWorld world(1, [](rondel::test::RankTest& test, const rondel::test::Voice&) {
    Pair pair = connected_pair();
    std::vector<std::byte> from(1'000'003), to(from.size()), wanted(from.size());
    fill(from, 4);
    test.expect_equal(transfer(pair, {from.data(), from.size()}, {to.data(), to.size()}), std::string(),
                      "before");
    test.require(forbid_pulling(), "a filter on system calls");
    for (const Verb verb : {Verb::recv, Verb::recv_reduce, Verb::recv}) {  // the first one is refused
      fill(to, 9);
      for (std::size_t i = 0; i < wanted.size(); ++i)
        wanted[i] =
            verb == Verb::recv
                ? from[i]
                : static_cast<std::byte>(static_cast<unsigned>(from[i]) + static_cast<unsigned>(to[i]));
      test.expect_equal(transfer(pair, {from.data(), from.size()}, {to.data(), to.size()}, verb),
                        std::string(), "afterwards");
      test.expect(to == wanted, "the bytes");
    }
  });
  const auto ending = world.wait(0, Deadline::in(std::chrono::seconds(30)));
  INFO(ending.words);
  CHECK(ending.exit_code == 0);
}

TEST_CASE("copying after all wakes whoever waits for a descriptor") {
  rondel::test::ProcessWorld world(1, [](rondel::test::RankTest& test, const rondel::test::Voice&) {
    Pair pair = connected_pair();
    test.require(forbid_pulling(), "a filter on system calls");
    std::vector<std::byte> from(3'000'000), to(from.size());  // more than a socket holds
    fill(from, 4);
    test.expect_equal(
        transfer(pair, {from.data(), from.size()}, {to.data(), to.size()}, Verb::recv, Wait::descriptors),
        std::string(), "transfer");
    test.expect(holds(to, 4), "the bytes");
  });
  const auto ending = world.wait(0, Deadline::in(std::chrono::seconds(30)));
  INFO(ending.words);
  CHECK(ending.exit_code == 0);
}

TEST_CASE("Yama: two ranks read one another's memory unless only root may, or nobody") {
  struct Shared {
    std::atomic<std::uint64_t> address[2]{};  // of what the other is to read; 0: not there yet
    std::atomic<pid_t> pid[2]{};
    std::atomic<int> looked{0};
  };
  void* const page =
      ::mmap(nullptr, sizeof(Shared), PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
  REQUIRE(page != MAP_FAILED);
  auto* const shared = new (page) Shared;
  const bool allowed = yama_scope() < 2;
  rondel::test::ProcessWorld world(2, [&](rondel::test::RankTest& test, const rondel::test::Voice&) {
    if (!become_a_user()) return;
    const auto mine = static_cast<std::size_t>(test.rank());
    const std::uint64_t value = 0x5eed + mine;
    allow_pulling();
    shared->pid[mine].store(::getpid(), std::memory_order_relaxed);
    shared->address[mine].store(reinterpret_cast<std::uintptr_t>(&value), std::memory_order_release);
    const Deadline deadline = Deadline::in(std::chrono::seconds(10));
    const auto& there = shared->address[1 - mine];
    while (there.load(std::memory_order_acquire) == 0 && !deadline.passed()) std::this_thread::yield();
    test.expect_equal(
        can_pull(shared->pid[1 - mine].load(std::memory_order_relaxed), there, 0x5eed + 1 - mine), allowed,
        "reads the other's memory");
    shared->looked.fetch_add(1);
    while (shared->looked.load() < 2 && !deadline.passed()) std::this_thread::yield();
  });
  CHECK(rondel::test::failures_of(world.wait_all(Deadline::in(std::chrono::seconds(20)))) == "");
  ::munmap(page, sizeof(Shared));
}

TEST_CASE("memory that the receiver has no address space for is copied instead") {
#if UNDER_ADDRESS_SANITIZER || UNDER_THREAD_SANITIZER
  WARN("skipped: a sanitizer needs address space of its own");
#else
  rondel::test::ProcessWorld world(1, [](rondel::test::RankTest& test, const rondel::test::Voice&) {
    Pair pair = connected_pair();
    const auto arena = *Arena::create(0);
    const MemorySpan from = *arena->allocate(64U << 20U);
    std::vector<std::byte> to(from.bytes);
    fill({from.data, from.bytes}, 4);
    std::ifstream file("/proc/self/statm");
    std::size_t pages = 0;
    file >> pages;
    const rlimit tight{(pages << 12U) + (32U << 20U), RLIM_INFINITY};
    test.require(::setrlimit(RLIMIT_AS, &tight) == 0, "a limit on address space");
    for (int i = 0; i < 2; ++i) {
      std::fill(to.begin(), to.end(), std::byte{0});
      test.expect_equal(transfer(pair, from, {to.data(), to.size()}), std::string(), "transfer");
      test.expect(holds(to, 4), "the bytes");
    }
  });
  const auto ending = world.wait(0, Deadline::in(std::chrono::seconds(30)));
  INFO(ending.words);
  CHECK(ending.exit_code == 0);
#endif
}

}  // namespace rondel::shm::test
