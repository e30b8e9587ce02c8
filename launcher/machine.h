// SPDX-License-Identifier: Apache-2.0
// This host's cores, sockets and NUMA nodes, as hwloc knows them. hwloc is opened at run time, so that a
// rondelrun that was built with it also runs where it is not installed, and only --bind-to is missing there.
// One thread.
#pragma once

#include <string>
#include <vector>

#include "launcher/binding.h"
#include "lib/status.h"

namespace rondel {

/// Whether machines can be described here. unavailable says what is missing and how to get it.
Status machine_support();

/// What this process may use: without processors that are off, not in its control group's cpuset, or not in
/// its affinity mask.
Result<Machine> this_machine();

/// bind_ranks() for this host; it is looked at only where there is something to bind.
inline Result<std::vector<CpuSet>> bind_on_this_host(const BindingRules& rules, Rank ranks) {
  if (rules.to == BindTo::none) return bind_ranks({}, rules, ranks);
  const auto machine = this_machine();
  return machine.ok() ? bind_ranks(*machine, rules, ranks) : machine.status();
}

/// A machine that is only described, as in "pack:2 numa:2 core:4 pu:2", with every processor.
Result<Machine> synthetic_machine(const std::string& description);

}  // namespace rondel
