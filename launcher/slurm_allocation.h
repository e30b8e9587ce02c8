// SPDX-License-Identifier: Apache-2.0
// The hosts of a Slurm allocation, for a rondelrun that is started in one without -H or a hostfile. Pure: the
// values of Slurm's variables in; it does not ask Slurm.
#pragma once

#include <string>
#include <vector>

#include "launcher/host.h"
#include "lib/status.h"

namespace rondel {

/// `nodes`: SLURM_JOB_NODELIST, such as n[01-04,7],gpu1; `tasks`: SLURM_TASKS_PER_NODE, such as 2(x5),4;
/// empty: one for each. invalid_argument says which variable can not be read.
Result<std::vector<Host>> hosts_of_allocation(const std::string& nodes, const std::string& tasks);

}  // namespace rondel
