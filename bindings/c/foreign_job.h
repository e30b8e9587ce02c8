// SPDX-License-Identifier: Apache-2.0
// Who this process is in a job that was started by others: hydra or Flux (PMI), Slurm's srun, Open MPI's
// mpirun. Where several of them, or torchrun, or rondelrun, left variables that contradict, the innermost one
// counts, the one nearest to this process; where that can not be told the start is refused. Reads the
// environment through the given functions; opens nothing. Any thread.
#pragma once

#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "bindings/c/claims.h"
#include "lib/status.h"
#include "lib/types.h"

namespace rondel::c {

struct ForeignJob {
  std::string starter;    ///< "srun", for error texts
  std::string variables;  ///< "SLURM_PROCID=0, SLURM_STEP_NUM_TASKS=2", likewise
  std::string unset;      ///< the names to unset to have the process run alone, likewise
  std::string name;       ///< of the job: no other job of this user has it at the same time
  Rank rank = 0;
  Rank size = 1;
  std::optional<Rank> local_rank;
  std::optional<Rank> local_size;
  std::optional<int> pmi_descriptor;  ///< where its starter answers PMI requests
};

/// The environments with which this process, its parent, and so on upwards began, as /proc shows them, up to
/// the last that can be read. Asked for only when several starters left variables.
using Ancestry = std::function<std::vector<std::string>()>;

/// nullopt when none of them started this process, or torchrun or rondelrun did so inside of them, or
/// RONDEL_RANK and RONDEL_SIZE were set by hand, which always count. invalid_argument when what they set
/// makes no sense; refused when it contradicts and nothing tells who is the innermost. Of Slurm only a step
/// counts (srun): what a batch script starts by itself is one process.
Result<std::optional<ForeignJob>> foreign_job(const Lookup& lookup, const Ancestry& ancestry);

}  // namespace rondel::c
