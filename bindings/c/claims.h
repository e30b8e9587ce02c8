// SPDX-License-Identifier: Apache-2.0
// What each launcher's variables say of this process: a claim. Which of several claims counts is decided
// elsewhere (foreign_job). Pure: reads variables through the given function. Any thread.
#pragma once

#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "lib/status.h"
#include "lib/types.h"

namespace rondel::c {

struct Starter {
  const char* name;  ///< for error texts
  const char* rank;  ///< variables; those that it does not have are ""
  const char* size;
  const char* local_rank;
  const char* local_size;
  const char* mark;     ///< differs from job to job, or from start to start
  bool names_its_jobs;  ///< so that their ranks can meet in a directory
};

namespace starters {
inline constexpr Starter kSlurm{
    "srun", "SLURM_PROCID", "SLURM_STEP_NUM_TASKS", "SLURM_LOCALID", "", "SLURM_STEP_ID", true};
inline constexpr Starter kOpenMpi{"mpirun",
                                  "OMPI_COMM_WORLD_RANK",
                                  "OMPI_COMM_WORLD_SIZE",
                                  "OMPI_COMM_WORLD_LOCAL_RANK",
                                  "OMPI_COMM_WORLD_LOCAL_SIZE",
                                  "PMIX_NAMESPACE",
                                  true};
inline constexpr Starter kPmi{"a launcher with PMI", "PMI_RANK", "PMI_SIZE", "MPI_LOCALRANKID",
                              "MPI_LOCALNRANKS",     "PMI_FD",   false};
inline constexpr Starter kPmix{"a launcher with PMIx", "PMIX_RANK", "", "", "", "PMIX_NAMESPACE", false};
inline constexpr Starter kTorchrun{"torchrun",         "RANK", "WORLD_SIZE", "LOCAL_RANK",
                                   "LOCAL_WORLD_SIZE", "",     false};
inline constexpr Starter kRondelrun{"rondelrun", "RONDEL_RANK", "RONDEL_SIZE", "", "", "", false};
}  // namespace starters

struct Claim {
  const Starter* starter;
  std::optional<Rank> rank;  ///< at least one of the two is there
  std::optional<Rank> size;
  std::optional<Rank> local_rank;
  std::optional<Rank> local_size;

  bool complete() const { return rank && size; }
  bool contradicts(const Claim& other) const;
  /// "srun (SLURM_PROCID=0, SLURM_STEP_NUM_TASKS=2)"
  std::string text() const;
  std::string variables() const;
  /// "SLURM_PROCID, SLURM_STEP_NUM_TASKS"
  std::string names() const;
};

using Lookup = std::function<const char*(const char* name)>;

/// The claim of `starter`, nullopt when its variables are not there. invalid_argument names the variable that
/// makes no sense.
Result<std::optional<Claim>> claim_of(const Starter& starter, const Lookup& lookup);

/// All of them but rondelrun's, those whose jobs have names first.
Result<std::vector<Claim>> foreign_claims(const Lookup& lookup);

}  // namespace rondel::c
