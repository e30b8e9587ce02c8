// SPDX-License-Identifier: Apache-2.0
#include "launcher/slurm_allocation.h"

#include <catch2/catch.hpp>
#include <map>
#include <string>

namespace rondel {
namespace {

using Variables = std::map<std::string, std::string>;

Result<std::vector<Host>> hosts_in(const Variables& variables) {
  return allocated_hosts([&variables](const char* name) -> const char* {
    const auto found = variables.find(name);
    return found == variables.end() ? nullptr : found->second.c_str();
  });
}

Result<std::vector<Host>> hosts_of_allocation(const char* nodes, const char* tasks) {
  return hosts_in({{"SLURM_JOB_NODELIST", nodes}, {"SLURM_TASKS_PER_NODE", tasks}});
}

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

TEST_CASE("in a step of fewer nodes than the allocation has, the step's nodes count") {
  const auto hosts = hosts_in({{"SLURM_JOB_NODELIST", "n[1-3]"},
                               {"SLURM_TASKS_PER_NODE", "2"},
                               {"SLURM_STEP_NODELIST", "n2"},
                               {"SLURM_STEP_TASKS_PER_NODE", "2"}});
  REQUIRE(hosts.ok());
  REQUIRE(hosts->size() == 1);
  CHECK(hosts->front().name == "n2");
  CHECK(hosts->front().slots == 2);
}

TEST_CASE("the nodes of all groups of a heterogeneous job count; without Slurm there are none") {
  const auto hosts = hosts_in({{"SLURM_JOB_NODELIST_HET_GROUP_0", "n1"},
                               {"SLURM_TASKS_PER_NODE_HET_GROUP_0", "1"},
                               {"SLURM_JOB_NODELIST_HET_GROUP_1", "gpu[1-2]"},
                               {"SLURM_TASKS_PER_NODE_HET_GROUP_1", "4(x2)"}});
  REQUIRE(hosts.ok());
  REQUIRE(hosts->size() == 3);
  CHECK(hosts->front().slots == 1);
  CHECK(hosts->back().name == "gpu2");
  CHECK(hosts->back().slots == 4);
  CHECK((hosts_in({}).ok() && hosts_in({})->empty()));
}

}  // namespace
}  // namespace rondel
