// SPDX-License-Identifier: Apache-2.0
#include "bindings/c/foreign_job.h"

#include <fmt/format.h>

#include <charconv>
#include <string_view>

#include "lib/slurm.h"

namespace rondel::c {
namespace {

std::string text_of(const Lookup& lookup, const char* name) {
  const char* const text = lookup(name);
  return text == nullptr ? std::string() : text;
}

Result<std::int32_t> number_of(const Lookup& lookup, const char* name, std::int32_t least) {
  const std::string text = text_of(lookup, name);
  std::int32_t number = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), number);
  if (error == std::errc() && end == text.data() + text.size() && number >= least) return number;
  return Status(Code::invalid_argument,
                fmt::format("{} is \"{}\", expected a whole number of at least {}", name, text, least),
                "set RONDEL_RANK and RONDEL_SIZE, which count before what other launchers set");
}

struct Names {
  const char* rank;
  const char* size;
  const char* local_rank;
  const char* local_size;
};

Result<ForeignJob> read(const Lookup& lookup, const Names& names, std::string starter, std::string name) {
  ForeignJob job{.starter = std::move(starter), .name = std::move(name)};
  const auto rank = number_of(lookup, names.rank, 0);
  RONDEL_TRY(rank);
  const auto size = number_of(lookup, names.size, 1);
  RONDEL_TRY(size);
  if (*rank >= *size)
    return Status(Code::invalid_argument,
                  fmt::format("{}={} is not below {}={}", names.rank, *rank, names.size, *size),
                  "set RONDEL_RANK and RONDEL_SIZE, which count before what other launchers set");
  job.rank = *rank;
  job.size = *size;
  // Where ranks share a host only makes things faster: what can not be read is left out.
  const auto local_rank = number_of(lookup, names.local_rank, 0);
  const auto local_size = number_of(lookup, names.local_size, 1);
  if (local_rank.ok() && local_size.ok() && *local_rank < *local_size && *local_size <= job.size) {
    job.local_rank = *local_rank;
    job.local_size = *local_size;
  }
  return job;
}

/// Of a process that srun started.
Result<ForeignJob> read_slurm(const Lookup& lookup) {
  constexpr Names kNames{"SLURM_PROCID", "SLURM_STEP_NUM_TASKS", "SLURM_LOCALID", ""};
  // A job that is requeued keeps its number.
  const std::string restart = text_of(lookup, "SLURM_RESTART_COUNT");
  auto job = read(lookup, kNames, "srun",
                  fmt::format("slurm-{}.{}{}{}", text_of(lookup, "SLURM_JOB_ID"),
                              text_of(lookup, "SLURM_STEP_ID"), restart.empty() ? "" : "-", restart));
  RONDEL_TRY(job);
  const auto local_rank = number_of(lookup, kNames.local_rank, 0);
  const auto node = number_of(lookup, "SLURM_NODEID", 0);
  if (!local_rank.ok() || !node.ok()) return job;
  const auto tasks = slurm_counts(text_of(lookup, "SLURM_STEP_TASKS_PER_NODE"));
  const auto index = static_cast<std::size_t>(*node);
  if (index >= tasks.size() || *local_rank >= tasks[index] || tasks[index] > job->size) return job;
  job->local_rank = *local_rank;
  job->local_size = tasks[index];
  return job;
}

}  // namespace

Result<std::optional<ForeignJob>> foreign_job(const Lookup& lookup) {
  constexpr Names kPmi{"PMI_RANK", "PMI_SIZE", "MPI_LOCALRANKID", "MPI_LOCALNRANKS"};
  constexpr Names kOpenMpi{"OMPI_COMM_WORLD_RANK", "OMPI_COMM_WORLD_SIZE", "OMPI_COMM_WORLD_LOCAL_RANK",
                           "OMPI_COMM_WORLD_LOCAL_SIZE"};
  const auto is_set = [&lookup](const char* name) { return lookup(name) != nullptr; };
  const bool in_step = is_set("SLURM_STEP_ID") && is_set("SLURM_PROCID") && is_set("SLURM_STEP_NUM_TASKS");
  const bool has_pmi = is_set("PMI_FD") && is_set("PMI_RANK") && is_set("PMI_SIZE");
  if (!in_step && !has_pmi && !is_set(kOpenMpi.rank)) return std::optional<ForeignJob>();
  auto job = in_step   ? read_slurm(lookup)
             : has_pmi ? read(lookup, kPmi, "a launcher with PMI", "pmi")
                       : read(lookup, kOpenMpi, "mpirun", "openmpi-" + text_of(lookup, "PMIX_NAMESPACE"));
  RONDEL_TRY(job);
  if (has_pmi) {
    const auto descriptor = number_of(lookup, "PMI_FD", 0);
    RONDEL_TRY(descriptor);
    job->pmi_descriptor = *descriptor;
  }
  return std::optional<ForeignJob>(*std::move(job));
}

}  // namespace rondel::c
