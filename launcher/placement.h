// SPDX-License-Identifier: Apache-2.0
// place: which rank runs on which host, and which place it has there. Pure: hosts and rules in, a table out;
// it neither looks at the machine nor starts anything. Hosts that are one machine under two names are two
// here: who knows better joins them before.
#pragma once

#include <cstddef>
#include <span>
#include <vector>

#include "launcher/host.h"
#include "lib/status.h"
#include "lib/types.h"

namespace rondel {

enum class MapBy {
  slot,  ///< a host is filled before the next one; neighbouring ranks share hosts
  node   ///< rank by rank in rounds over the hosts that still have slots
};

struct PlacementRules {
  Rank ranks = 0;     ///< 0: one for each slot, or `per_host` on every host
  Rank per_host = 0;  ///< ranks that each used host takes, no more and no fewer; 0: as its slots allow
  MapBy map_by = MapBy::slot;
  bool oversubscribe = false;  ///< hosts may take more ranks than they have slots
};

struct RankPlace {
  Rank rank = kNoRank;
  Rank size = 0;
  Rank local_rank = kNoRank;
  Rank local_size = 0;
  std::size_t host = 0;       ///< index into the hosts given
  Rank cross_rank = kNoRank;  ///< place among the ranks with this local rank, in the order of hosts
  Rank cross_size = 0;        ///< how many of those there are
};

/// One entry per rank, in rank order. Ranks beyond the slots, when allowed, go over the hosts in rounds:
/// every slot takes a second rank before any takes a third, and those of an incomplete round are dealt one to
/// a host. invalid_argument, with the numbers and the option that helps: no rank to place, more than slots or
/// hosts allow.
Result<std::vector<RankPlace>> place(std::span<const Host> hosts, const PlacementRules& rules);

}  // namespace rondel
