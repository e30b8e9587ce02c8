// SPDX-License-Identifier: Apache-2.0
// place: which rank runs on which host, and which place it has there. Pure: hosts and a count in, a table
// out; it neither looks at the machine nor starts anything.
#pragma once

#include <span>
#include <string>
#include <vector>

#include "lib/status.h"
#include "lib/types.h"

namespace rondel {

struct HostSlots {
  std::string name;
  Rank slots = 1;  ///< ranks that this host takes before the next one is filled
};

struct RankPlace {
  Rank rank = kNoRank;
  Rank size = 0;
  Rank local_rank = kNoRank;
  Rank local_size = 0;
  std::size_t host = 0;  ///< index into the hosts given
};

/// Fills the hosts in their order, slot by slot; one entry per rank, in rank order. invalid_argument when
/// there is no rank to place or there are fewer slots than ranks.
Result<std::vector<RankPlace>> place(std::span<const HostSlots> hosts, Rank ranks);

}  // namespace rondel
