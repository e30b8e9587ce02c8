// SPDX-License-Identifier: Apache-2.0
// In which order ranks stand round the ring: those of one host side by side, so that a chunk crosses between
// hosts as seldom as it can. Pure, any thread; knows nothing of what a host is beyond a text that is equal
// for equal hosts.
#pragma once

#include <span>
#include <string>
#include <vector>

#include "lib/types.h"

namespace rondel {

/// All ranks, once each. Hosts come in the order of their lowest rank, ranks of a host ascending; so ranks
/// that were placed host by host keep the order of their numbers.
std::vector<Rank> ring_order(std::span<const std::string> host_of_rank);

/// Whether the order is 0, 1, 2, ...
bool by_number(std::span<const Rank> order);

}  // namespace rondel
