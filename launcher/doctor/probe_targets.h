// SPDX-License-Identifier: Apache-2.0
// Where a host should look for the others. Pure; any thread.
#pragma once

#include <string>
#include <vector>

#include "launcher/doctor/findings.h"

namespace rondel::doctor {

/// For host `from`: every other one that `takes_part`, at every address that its ranks may use and every port
/// that it listens on; the likeliest first: those in a network of `from`'s own, IPv4 before IPv6.
std::vector<agent::ProbeTarget> targets_of(const Findings& findings, std::size_t from,
                                           const std::vector<bool>& takes_part);

}  // namespace rondel::doctor
