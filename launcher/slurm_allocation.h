// SPDX-License-Identifier: Apache-2.0
// The hosts of a Slurm allocation, for a rondelrun that is started in one without -H or a hostfile. Pure: the
// values of Slurm's variables in; it does not ask Slurm.
#pragma once

#include <vector>

#include "launcher/host.h"
#include "lib/config.h"
#include "lib/status.h"

namespace rondel {

/// Of the allocation, or, where this runs in a step whose tasks do not fit it, of the step; of all groups of
/// a heterogeneous job. Empty when there is none. invalid_argument says which variable can not be read.
Result<std::vector<Host>> allocated_hosts(const Lookup& lookup);

}  // namespace rondel
