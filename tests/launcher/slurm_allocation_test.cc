// SPDX-License-Identifier: Apache-2.0
#include "launcher/slurm_allocation.h"

#include <catch2/catch.hpp>

namespace rondel {
namespace {

TEST_CASE("the nodes of an allocation take as many ranks as it has tasks") {
  const auto hosts = hosts_of_allocation("n[01-02,7],gpu1", "2(x3),4");
  REQUIRE(hosts.ok());
  REQUIRE(hosts->size() == 4);
  CHECK((*hosts)[0].name == "n01");
  CHECK((*hosts)[2].name == "n7");
  CHECK((*hosts)[2].slots == 2);
  CHECK((*hosts)[3].name == "gpu1");
  CHECK((*hosts)[3].slots == 4);
}

TEST_CASE("without a number of tasks each node takes one rank") {
  const auto hosts = hosts_of_allocation("a,b", "");
  REQUIRE(hosts.ok());
  CHECK((*hosts)[1].slots == 1);
}

TEST_CASE("what can not be read is told by the variable's name") {
  CHECK(hosts_of_allocation("n[1-", "1").status().text().find("SLURM_JOB_NODELIST") != std::string::npos);
  for (const char* const tasks : {"1", "1(x3)", "x", "1,", "1(x2", "0(x2)", "1(x99999999999)"}) {
    const auto hosts = hosts_of_allocation("n[1-2]", tasks);
    REQUIRE_FALSE(hosts.ok());
    CHECK(hosts.status().text().find("SLURM_TASKS_PER_NODE") != std::string::npos);
  }
}

}  // namespace
}  // namespace rondel
