// SPDX-License-Identifier: Apache-2.0
// Who this process is in a job that was started by others: hydra or Flux (PMI), Slurm's srun, Open MPI's
// mpirun. Reads the environment through the given function; opens nothing. Any thread.
#pragma once

#include <functional>
#include <optional>
#include <string>

#include "lib/status.h"
#include "lib/types.h"

namespace rondel::c {

struct ForeignJob {
  std::string starter;  ///< "srun", for error texts
  std::string name;     ///< of the job: no other job of this user has it at the same time
  Rank rank = 0;
  Rank size = 1;
  std::optional<Rank> local_rank;
  std::optional<Rank> local_size;
  std::optional<int> pmi_descriptor;  ///< where its starter answers PMI requests
};

using Lookup = std::function<const char*(const char* name)>;

/// nullopt when none of them started this process. invalid_argument when what they set makes no sense. Of
/// Slurm only a step counts (srun): what a batch script starts by itself is one process.
Result<std::optional<ForeignJob>> foreign_job(const Lookup& lookup);

}  // namespace rondel::c
