// SPDX-License-Identifier: Apache-2.0
// What each host's agent is ordered to do, made of the plan and of what was learnt since. Pure, but for the
// current directory and PATH of this process.
#pragma once

#include <span>
#include <string>
#include <vector>

#include "launcher/agent_protocol.h"
#include "launcher/job_plan.h"
#include "launcher/options.h"
#include "lib/auth.h"

namespace rondel {

/// What a plan does not know.
struct OrderFacts {
  std::string job;                         ///< its unguessable name
  std::string own_store;                   ///< JobStore::own_address
  std::span<const std::string> addresses;  ///< JobStore::addresses
  agent::Hello head;                       ///< of rank 0's host
  bool head_is_local = true;
  bool input_is_taken = false;  ///< see input_is_taken()
  std::uint32_t output_window = 0;
};

/// Where a program without '/' is looked for: the launcher's own PATH, or the one that -x sets.
std::string search_path_of(std::span<const std::string> variables);

/// For the host of `ranks`, which is this one or not.
agent::Order make_order(const Options& options, const JobPlan& plan, const OrderFacts& facts,
                        const Secret& secret, std::span<const RankPlace> ranks, bool local);

}  // namespace rondel
