// SPDX-License-Identifier: Apache-2.0
#include "lib/cpu_set.h"

#include <sched.h>

#include <algorithm>
#include <catch2/catch.hpp>
#include <cstring>

#include "tests/support/seed.h"

namespace rondel {
namespace {

TEST_CASE("lists of processors are written as the kernel does") {
  CHECK(cpu_list({}).empty());
  CHECK(cpu_list({3}) == "3");
  CHECK(cpu_list({0, 1}) == "0-1");
  CHECK(cpu_list({0, 1, 2, 4, 8, 9}) == "0-2,4,8-9");
}

TEST_CASE("a mask has exactly the processors of its set") {
  test::Random random(test::test_seed());
  for (int round = 0; round < 200; ++round) {
    CpuSet cpus;
    for (int cpu = 0; cpu < CPU_SETSIZE; ++cpu)
      if (random.below(5) == 0) cpus.push_back(cpu);
    const auto mask = mask_of(cpus);
    cpu_set_t set;
    CPU_ZERO(&set);
    REQUIRE(mask.size() * sizeof mask[0] <= sizeof set);
    std::memcpy(&set, mask.data(), mask.size() * sizeof mask[0]);
    for (int cpu = 0; cpu < CPU_SETSIZE; ++cpu)
      REQUIRE((CPU_ISSET(cpu, &set) != 0) == std::binary_search(cpus.begin(), cpus.end(), cpu));
  }
  CHECK(mask_of({}).empty());
}

TEST_CASE("what this thread may run on") {
  cpu_set_t set;
  REQUIRE(::sched_getaffinity(0, sizeof set, &set) == 0);
  const CpuSet cpus = allowed_cpus();
  CHECK(cpus.size() == static_cast<std::size_t>(CPU_COUNT(&set)));
  for (const int cpu : cpus) CHECK(CPU_ISSET(cpu, &set) != 0);
}

}  // namespace
}  // namespace rondel
