// SPDX-License-Identifier: Apache-2.0
// Reading a process's memory is tried before it is relied upon; where the kernel forbids it the lane is used.
#include "transports/shm/pull.h"

#include <linux/filter.h>
#include <linux/seccomp.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include <catch2/catch.hpp>
#include <cerrno>
#include <cstddef>

#include "tests/support/process_world.h"
#include "tests/transports/shm/world.h"

namespace rondel::shm::test {
namespace {

/// From here on this process may not read another's memory, as in many containers.
bool forbid_pulling() {
  sock_filter steps[] = {
      BPF_STMT(BPF_LD | BPF_W | BPF_ABS, offsetof(seccomp_data, nr)),
      BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, SYS_process_vm_readv, 0, 1),
      BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ERRNO | EPERM),
      BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ALLOW),
  };
  sock_fprog program{static_cast<unsigned short>(std::size(steps)), steps};
  return ::prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) == 0 &&
         ::prctl(PR_SET_SECCOMP, SECCOMP_MODE_FILTER, &program) == 0;
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
  rondel::test::ProcessWorld world(1, [](rondel::test::RankTest& test, const rondel::test::Voice&) {
    test.require(forbid_pulling(), "a filter on system calls");
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

}  // namespace rondel::shm::test
