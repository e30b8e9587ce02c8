// SPDX-License-Identifier: Apache-2.0
// The asking side of the probes between hosts: whether an address leads to the right host, and how fast the
// way there is. Blocks, each call until its limit at most. Any thread.
#pragma once

#include "launcher/agent_protocol.h"
#include "lib/auth.h"

namespace rondel::doctor {

/// Tries every address of every target, many at a time: the best of each target first. What there was no time
/// left for is an attempt that failed for that reason. `at_once`: how many descriptors may be used.
agent::Reached reach_all(const agent::Reach& order, const Secret& secret, std::size_t at_once);

agent::Measured measure(const agent::Measure& order, const Secret& secret);

}  // namespace rondel::doctor
