// SPDX-License-Identifier: Apache-2.0
// What hwloc says of machines, those that it makes up and this one. Passes without hwloc, which then must say
// so.
#include "launcher/machine.h"

#include <sched.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <catch2/catch.hpp>

namespace rondel {
namespace {

bool without_hwloc() {
  const Status support = machine_support();
  if (support.ok()) return false;
  WARN("skipped: " << support.text());
  CHECK(support.code() == Code::unavailable);
  CHECK_THAT(support.text(),
             Catch::Contains("hwloc") && Catch::Contains("--bind-to") && Catch::Contains("install"));
  CHECK(bind_on_this_host({BindTo::core}, 1).code() == Code::unavailable);
  CHECK(bind_on_this_host({BindTo::none}, 3)->size() == 3);
  return true;
}

TEST_CASE("sockets, NUMA nodes, cores and threads are found") {
  if (without_hwloc()) return;
  const auto machine = synthetic_machine("pack:2 numa:2 core:4 pu:2");
  REQUIRE(machine.ok());
  REQUIRE(machine->cores.size() == 16);
  for (std::size_t i = 0; i < 16; ++i) {
    const Core& core = machine->cores[i];
    const int first = 2 * static_cast<int>(i);
    CHECK(core.cpus == CpuSet{first, first + 1});
    CHECK(core.socket == first / 16);
    CHECK(core.numa == first / 8);
  }
  const auto sets = bind_ranks(*machine, {BindTo::numa, TakeBy::socket}, 3);
  REQUIRE(sets.ok());
  CHECK(cpu_list((*sets)[0]) == "0-7");
  CHECK(cpu_list((*sets)[1]) == "16-23");
  CHECK(cpu_list((*sets)[2]) == "0-7");
}

TEST_CASE("machines that tell less are one socket, one node, or cores of one thread") {
  if (without_hwloc()) return;
  const auto plain = synthetic_machine("core:3 pu:1");
  REQUIRE(plain.ok());
  REQUIRE(plain->cores.size() == 3);
  CHECK(plain->cores[2].socket == 0);
  CHECK(plain->cores[2].numa == 0);
  const auto without_cores = synthetic_machine("pack:2 pu:2");
  REQUIRE(without_cores.ok());
  REQUIRE(without_cores->cores.size() == 4);
  CHECK(without_cores->cores[3].cpus == CpuSet{3});
  CHECK(without_cores->cores[3].socket == 1);
  CHECK(synthetic_machine("no:such").code() == Code::invalid_argument);
}

TEST_CASE("of this machine only what this process may use is there") {
  if (without_hwloc()) return;
  const auto machine = this_machine();
  REQUIRE(machine.ok());
  CpuSet all;
  for (const Core& core : machine->cores) all.insert(all.end(), core.cpus.begin(), core.cpus.end());
  std::sort(all.begin(), all.end());
  const CpuSet allowed = allowed_cpus();
  CHECK(all == allowed);
  const pid_t child = ::fork();
  REQUIRE(child >= 0);
  if (child == 0) {  // as in a container with one of the cores
    const auto mask = mask_of({allowed.back()});
    if (::sched_setaffinity(0, mask.size() * sizeof mask[0],
                            reinterpret_cast<const cpu_set_t*>(mask.data())) != 0)
      ::_exit(2);
    const auto one = bind_on_this_host({BindTo::core}, 1);
    const bool right = one.ok() && (*one)[0] == CpuSet{allowed.back()};
    ::_exit(right && !bind_on_this_host({BindTo::core}, 2).ok() ? 0 : 1);
  }
  int status = -1;
  REQUIRE(::waitpid(child, &status, 0) == child);
  CHECK(status == 0);
}

}  // namespace
}  // namespace rondel
