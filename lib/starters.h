// SPDX-License-Identifier: Apache-2.0
// Starters: the launchers that tell a process its rank, and the variables by which each does. Names only;
// what they mean for a process is decided where it starts (bindings), and which a launcher hides where it
// starts others. Constants; no state.
#pragma once

#include <array>

namespace rondel {

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
/// All but rondelrun, those whose jobs have names first.
inline constexpr std::array kForeign{&kSlurm, &kOpenMpi, &kPmi, &kPmix, &kTorchrun};
}  // namespace starters

}  // namespace rondel
