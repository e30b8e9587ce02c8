// SPDX-License-Identifier: Apache-2.0
// Who a process is by the variables of other launchers.
#include "bindings/c/foreign_job.h"

#include <fmt/format.h>

#include <catch2/catch.hpp>
#include <map>
#include <string>
#include <vector>

namespace rondel::c {
namespace {

using Variables = std::map<std::string, std::string>;
/// What processes began with: this one first, then its parent and so on.
using Upwards = std::vector<Variables>;

Result<std::optional<ForeignJob>> found_in(const Variables& variables, const Upwards& upwards = {}) {
  const auto lookup = [&variables](const char* name) -> const char* {
    const auto found = variables.find(name);
    return found == variables.end() ? nullptr : found->second.c_str();
  };
  const auto ancestry = [&upwards] {
    std::vector<std::string> environments;
    for (const Variables& each : upwards) {
      std::string text("PATH=/bin");
      for (const auto& [name, value] : each) text += '\0' + name + "=" + value;
      environments.push_back(text + '\0');
    }
    return environments;
  };
  return foreign_job(lookup, ancestry);
}

Variables with(Variables variables, const Variables& more) {
  for (const auto& [name, value] : more) variables[name] = value;
  return variables;
}

const Variables kSlurm{{"SLURM_JOB_ID", "17"},
                       {"SLURM_STEP_ID", "2"},
                       {"SLURM_PROCID", "5"},
                       {"SLURM_STEP_NUM_TASKS", "7"},
                       {"SLURM_LOCALID", "1"},
                       {"SLURM_NODEID", "2"},
                       {"SLURM_STEP_TASKS_PER_NODE", "2(x3),1"}};
const Variables kPmi{{"PMI_FD", "9"}, {"PMI_RANK", "1"}, {"PMI_SIZE", "4"}};
const Variables kOpenMpi{{"OMPI_COMM_WORLD_RANK", "2"},
                         {"OMPI_COMM_WORLD_SIZE", "4"},
                         {"OMPI_COMM_WORLD_LOCAL_RANK", "2"},
                         {"OMPI_COMM_WORLD_LOCAL_SIZE", "4"},
                         {"PMIX_RANK", "2"},
                         {"PMIX_NAMESPACE", "187"},
                         {"OMPI_MCA_orte_hnp_uri", "187.0;tcp://192.0.2.1:4"}};
const Variables kTorchrun{{"RANK", "3"}, {"WORLD_SIZE", "8"}};
const Variables kRondelrun{{"RONDEL_RANK", "0"},
                           {"RONDEL_SIZE", "2"},
                           {"RANK", "0"},
                           {"WORLD_SIZE", "2"},
                           {"RONDEL_STORE", "tcp://127.0.0.1:4000"},
                           {"RONDEL_SECRET_FD", "3"}};

TEST_CASE("nothing is found where nobody set anything") {
  const auto job = found_in({{"PMI_RANK", "1"}, {"SLURM_JOB_ID", "4"}});
  REQUIRE(job.ok());
  CHECK_FALSE(*job);
}

TEST_CASE("a batch script of Slurm's is one process, although the job has many tasks") {
  const auto job = found_in({{"SLURM_JOB_ID", "17"}, {"SLURM_PROCID", "0"}, {"SLURM_NTASKS", "8"}});
  REQUIRE(job.ok());
  CHECK_FALSE(*job);
}

TEST_CASE("a step of Slurm's: rank, size, place in its host, and a name of its own") {
  const auto job = found_in(kSlurm);
  REQUIRE((job.ok() && *job));
  CHECK((*job)->rank == 5);
  CHECK((*job)->size == 7);
  CHECK((*job)->local_rank == 1);
  CHECK((*job)->local_size == 2);
  CHECK_FALSE((*job)->pmi_descriptor);
  // Each of these makes it another job, to ranks that share a home.
  for (const char* name : {"SLURM_JOB_ID", "SLURM_STEP_ID", "SLURM_CLUSTER_NAME", "SLURM_RESTART_COUNT"})
    CHECK((*found_in(with(kSlurm, {{name, "3"}})))->name != (*job)->name);
}

TEST_CASE("Slurm's list of tasks per node is read by the node's number, or left out") {
  const auto local_size = [](const char* list, const char* node) {
    return (*found_in(
                with(kSlurm,
                     {{"SLURM_STEP_TASKS_PER_NODE", list}, {"SLURM_NODEID", node}, {"SLURM_LOCALID", "0"}})))
        ->local_size;
  };
  CHECK(local_size("2(x3),1", "3") == 1);
  CHECK(local_size("1,2,4", "1") == 2);
  CHECK(local_size("4(x2)", "1") == 4);
  for (const char* list : {"", "x", "-1", "0", "2(x", ",,", "99"})
    CHECK(local_size(list, "1") == std::nullopt);
  CHECK(local_size("2", "1") == std::nullopt);
}

TEST_CASE("PMI: the descriptor comes with it, under Slurm too") {
  const auto hydra = found_in(with(kPmi, {{"MPI_LOCALRANKID", "1"}, {"MPI_LOCALNRANKS", "2"}}));
  REQUIRE((hydra.ok() && *hydra));
  CHECK((*hydra)->rank == 1);
  CHECK((*hydra)->size == 4);
  CHECK((*hydra)->local_size == 2);
  CHECK((*hydra)->pmi_descriptor == 9);
  CHECK((*found_in(kPmi))->local_size == std::nullopt);
  const auto slurm = found_in(with(kSlurm, {{"PMI_FD", "9"}, {"PMI_RANK", "5"}, {"PMI_SIZE", "7"}}));
  REQUIRE((slurm.ok() && *slurm));
  CHECK((*slurm)->rank == 5);
  CHECK((*slurm)->local_size == 2);
  CHECK((*slurm)->pmi_descriptor == 9);
}

TEST_CASE("Open MPI's mpirun") {
  const auto job = found_in(kOpenMpi);
  REQUIRE((job.ok() && *job));
  CHECK((*job)->rank == 2);
  CHECK((*job)->local_size == 4);
  // Its name of a job is a number of 16 bits; two hosts may choose the same one.
  CHECK((*found_in(with(kOpenMpi, {{"PMIX_NAMESPACE", "188"}})))->name != (*job)->name);
  CHECK((*found_in(with(kOpenMpi, {{"OMPI_MCA_orte_hnp_uri", "187.0;tcp://192.0.2.2:4"}})))->name !=
        (*job)->name);
}

TEST_CASE("numbers that make no sense are refused by name") {
  for (const auto& [variables, named] : std::vector<std::pair<Variables, std::string>>{
           {with(kPmi, {{"PMI_RANK", "x"}}), "PMI_RANK"},
           {with(kPmi, {{"PMI_RANK", "4"}}), "PMI_SIZE"},
           {with(kPmi, {{"PMI_SIZE", "0"}}), "PMI_SIZE"},
           {with(kPmi, {{"PMI_FD", "-3"}}), "PMI_FD"},
           {with(kPmi, {{"PMI_SIZE", "100000"}}), "PMI_SIZE"},
           {with(kSlurm, {{"SLURM_PROCID", ""}}), "SLURM_PROCID"}}) {
    const auto job = found_in(variables);
    REQUIRE_FALSE(job.ok());
    CHECK(job.status().code() == Code::invalid_argument);
    CHECK(job.status().text().find(named) != std::string::npos);
  }
}

/// "5 of 7", "" for none or torchrun, "refused" for a refusal.
std::string place_in(const Variables& variables, const Upwards& upwards = {}) {
  const auto job = found_in(variables, upwards);
  if (!job.ok()) return job.status().code() == Code::refused ? "refused" : job.status().text();
  return *job ? fmt::format("{} of {}", (*job)->rank, (*job)->size) : "";
}

TEST_CASE("of two starters that contradict the inner one counts, whichever they are") {
  const std::vector<std::pair<Variables, std::string>> starters{
      {kSlurm, "5 of 7"}, {kPmi, "1 of 4"}, {kOpenMpi, "2 of 4"}, {kTorchrun, ""}};
  for (const auto& [outer, outer_place] : starters)
    for (const auto& [inner, inner_place] : starters) {
      if (outer == inner) continue;
      const Variables both = with(outer, inner);
      // The inner one's daemon is this process's parent, a rank of the outer one.
      CHECK(place_in(both, {both, outer, {}}) == inner_place);
      // A script in between.
      CHECK(place_in(both, {both, both, both, outer, outer, {}}) == inner_place);
      // The process set the inner one's variables itself, after it had begun.
      CHECK(place_in(both, {outer, {}}) == inner_place);
      // Nothing can be read, or the daemon that carried the outer one's on was started without them.
      CHECK(place_in(both) == "refused");
      CHECK(place_in(both, {both}) == "refused");
      CHECK(place_in(both, {both, {}, {}}) == "refused");
    }
}

TEST_CASE("a nest of three: the innermost counts, and its name is that of the job") {
  const Variables all = with(with(kSlurm, kPmi), kOpenMpi);
  CHECK(place_in(all, {all, with(kSlurm, kPmi), kSlurm, {}}) == "2 of 4");
  CHECK((*found_in(all, {all, with(kSlurm, kPmi), kSlurm}))->name == (*found_in(kOpenMpi))->name);
  CHECK_FALSE((*found_in(all, {all, with(kSlurm, kPmi), kSlurm}))->pmi_descriptor);
}

TEST_CASE("a starter inside one of its kind is told from it by what it calls its job") {
  const Variables outer = with(kOpenMpi, kSlurm);
  Variables inner = with(outer, {{"PMIX_NAMESPACE", "188"}});
  CHECK(place_in(inner, {inner, outer, kOpenMpi, {}}) == "2 of 4");
}

TEST_CASE("starters that agree: the nearest names the job, else the one whose jobs have names") {
  const Variables both = with(kSlurm, {{"OMPI_COMM_WORLD_RANK", "5"}, {"OMPI_COMM_WORLD_SIZE", "7"}});
  CHECK((*found_in(both, {both, kSlurm, {}}))->starter == "mpirun");
  CHECK((*found_in(both))->starter == "srun");
  const Variables script = with(kSlurm, {{"RANK", "5"}, {"WORLD_SIZE", "7"}});
  CHECK(place_in(script) == "5 of 7");
  CHECK(place_in(script, {script, kSlurm, {}}).empty());
}

TEST_CASE("half of torchrun's variables is no place, but must not contradict") {
  CHECK(place_in(with(kSlurm, {{"WORLD_SIZE", "7"}})) == "5 of 7");
  CHECK(place_in(with(kSlurm, {{"RANK", "5"}})) == "5 of 7");
  CHECK(place_in(with(kSlurm, {{"WORLD_SIZE", "8"}})) == "refused");
  CHECK(place_in(with(kSlurm, {{"RANK", ""}, {"WORLD_SIZE", ""}})) == "5 of 7");
}

TEST_CASE("a refusal names both sets of variables and what to unset") {
  const auto refused = found_in(with(kSlurm, kOpenMpi));
  REQUIRE_FALSE(refused.ok());
  for (const char* words : {"SLURM_PROCID=5", "SLURM_STEP_NUM_TASKS=7", "OMPI_COMM_WORLD_RANK=2",
                            "OMPI_COMM_WORLD_SIZE=4", "unset", "PMIX_RANK", "RONDEL_RANK"})
    CHECK_THAT(refused.status().text(), Catch::Contains(words));
}

TEST_CASE("inside a rank of rondelrun other starters are refused where they contradict") {
  CHECK(place_in(kRondelrun).empty());
  for (const Variables& inner : {kSlurm, kPmi, kOpenMpi, kTorchrun}) {
    const auto refused = found_in(with(kRondelrun, inner));
    REQUIRE_FALSE(refused.ok());
    CHECK(refused.status().code() == Code::refused);
    CHECK_THAT(refused.status().text(), Catch::Contains("rondelrun (RONDEL_RANK=0, RONDEL_SIZE=2)"));
    Variables by_hand = with(kRondelrun, inner);
    by_hand.erase("RONDEL_STORE");
    CHECK(place_in(by_hand).empty());
  }
  CHECK(place_in(with(kRondelrun, {{"PMI_RANK", "0"}, {"PMI_SIZE", "2"}})).empty());
}

TEST_CASE("a launcher that gives no way to meet is told, instead of many ranks alone") {
  for (const Variables& variables :
       {Variables{{"PMI_RANK", "1"}, {"PMI_SIZE", "4"}}, {{"PMIX_RANK", "0"}, {"PMIX_NAMESPACE", "x"}}}) {
    const auto job = found_in(variables);
    REQUIRE_FALSE(job.ok());
    CHECK(job.status().code() == Code::unsupported);
    CHECK_THAT(job.status().text(), Catch::Contains("_RANK=") && Catch::Contains("unset"));
  }
}

}  // namespace
}  // namespace rondel::c
