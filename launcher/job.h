// SPDX-License-Identifier: Apache-2.0
// run_job: starts what a plan says and stays with it until nothing of the job is left. Wires fleet, relay,
// store and supervisor into one loop on the calling thread; the store's server has a thread of its
// own.
#pragma once

#include <string>

#include "launcher/job_plan.h"
#include "launcher/options.h"

namespace rondel {

/// Returns the launcher's exit code. `version` is this program's, which its agents must have. Standard input,
/// output and error must be open.
int run_job(const Options& options, const JobPlan& plan, const std::string& version);

}  // namespace rondel
