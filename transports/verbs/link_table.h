// SPDX-License-Identifier: Apache-2.0
// LinkTable: an endpoint's links, by the rank of their peer. A link is in it before it is connected, because
// completions for it come as soon as its queue pair is up. Owned by the endpoint; driver thread only.
#pragma once

#include <chrono>
#include <cstdint>
#include <memory>
#include <vector>

#include "lib/status.h"
#include "lib/unique_fd.h"
#include "transports/verbs/link.h"

namespace rondel::verbs {

/// For what the completion queues have room.
struct LinkRoom {
  std::uint32_t links = 0;
  std::uint32_t pairs = 1;  ///< queue pairs of each, at most
  /// Entries that the completion queues must have for that.
  std::uint32_t arrivals() const;
  std::uint32_t departures() const;
};
/// Rather fewer queue pairs than peers that find no room.
LinkRoom room_on(const Device& device, std::uint32_t peers, std::uint32_t pairs);

class LinkTable {
 public:
  LinkTable(std::shared_ptr<Device> device, const CompletionQueues& queues, Rank size, LinkRoom room,
            PairPatience patience);

  /// A connected link, or null.
  Link* connected(Rank peer) const;
  /// The link that `completion` is about; null when that has gone.
  Link* of(const ibv_wc& completion) const {
    return find(static_cast<std::uint32_t>(completion.wr_id >> 32));
  }
  Link* find(std::uint32_t mark) const;
  const std::vector<std::unique_ptr<Link>>& all() const { return by_rank_; }

  /// Makes a link that waits to be connected, in place of one that waited before or whose peer has gone.
  Result<Link*> begin(Rank peer);
  Status bring_up(Link& link, const PairOffer& theirs) const { return link.bring_up(theirs, patience_); }
  /// Drops it unless it is connected.
  void give_up(std::uint32_t mark);

  /// Of all links, replaced ones too.
  LinkCounts counts() const;
  std::uint64_t bytes_sent() const;
  std::uint64_t bytes_received() const;  ///< asked for with every operation

 private:
  const std::shared_ptr<Device> device_;
  const CompletionQueues& queues_;
  const LinkRoom room_;
  const PairPatience patience_;
  std::vector<std::unique_ptr<Link>> by_rank_;
  std::uint32_t begun_ = 0;
  LinkCounts before_;  // of links that were replaced
};

}  // namespace rondel::verbs
