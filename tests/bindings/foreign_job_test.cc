// SPDX-License-Identifier: Apache-2.0
// Who a process is by the variables of other launchers.
#include "bindings/c/foreign_job.h"

#include <catch2/catch.hpp>
#include <map>

namespace rondel::c {
namespace {

using Variables = std::map<std::string, std::string>;

Result<std::optional<ForeignJob>> found_in(const Variables& variables) {
  return foreign_job([&variables](const char* name) -> const char* {
    const auto found = variables.find(name);
    return found == variables.end() ? nullptr : found->second.c_str();
  });
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
  CHECK((*job)->name == "slurm-17.2");
  CHECK_FALSE((*job)->pmi_descriptor);
  CHECK((*found_in(with(kSlurm, {{"SLURM_RESTART_COUNT", "3"}})))->name == "slurm-17.2-3");
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
  const auto slurm = found_in(with(kSlurm, kPmi));
  REQUIRE((slurm.ok() && *slurm));
  CHECK((*slurm)->rank == 5);
  CHECK((*slurm)->pmi_descriptor == 9);
}

TEST_CASE("Open MPI's mpirun") {
  const auto job = found_in({{"OMPI_COMM_WORLD_RANK", "2"},
                             {"OMPI_COMM_WORLD_SIZE", "4"},
                             {"OMPI_COMM_WORLD_LOCAL_RANK", "2"},
                             {"OMPI_COMM_WORLD_LOCAL_SIZE", "4"},
                             {"PMIX_NAMESPACE", "187"}});
  REQUIRE((job.ok() && *job));
  CHECK((*job)->rank == 2);
  CHECK((*job)->local_size == 4);
  CHECK((*job)->name == "openmpi-187");
}

TEST_CASE("numbers that make no sense are refused by name") {
  for (const auto& [variables, named] : std::vector<std::pair<Variables, std::string>>{
           {with(kPmi, {{"PMI_RANK", "x"}}), "PMI_RANK"},
           {with(kPmi, {{"PMI_RANK", "4"}}), "PMI_SIZE"},
           {with(kPmi, {{"PMI_SIZE", "0"}}), "PMI_SIZE"},
           {with(kPmi, {{"PMI_FD", "-3"}}), "PMI_FD"},
           {with(kSlurm, {{"SLURM_PROCID", ""}}), "SLURM_PROCID"}}) {
    const auto job = found_in(variables);
    REQUIRE_FALSE(job.ok());
    CHECK(job.status().code() == Code::invalid_argument);
    CHECK(job.status().text().find(named) != std::string::npos);
  }
}

}  // namespace
}  // namespace rondel::c
