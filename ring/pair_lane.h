// SPDX-License-Identifier: Apache-2.0
// PairLane: runs sends and receives over a communicator's second endpoint. They progress side by side; those
// of one pair and direction keep the order of their starts. Two ranks connect when they first exchange
// something; waiting for that holds up nobody else. Driver thread only.
#pragma once

#include <map>
#include <memory>
#include <set>
#include <span>
#include <utility>
#include <vector>

#include "ring/operation.h"

namespace rondel {

class PairLane {
 public:
  PairLane(Endpoint* endpoint, std::span<const Bytes> addresses, Rank rank)
      : known_memory(endpoint), endpoint_(endpoint), addresses_(addresses), rank_(rank) {}

  void enqueue(Operation& operation);
  bool idle() const { return runs_.empty(); }
  /// How many operations this lane was ever given.
  std::uint64_t started() const { return begun_; }
  /// Something waits for a peer to connect, which progress() of the endpoint does not report.
  bool connecting() const { return connecting_; }
  /// The operation whose deadline comes first; only when not idle().
  Operation& most_urgent();

  Status advance();
  void fail(const Status& failure);

  KnownMemory known_memory;  // goes before the endpoint

 private:
  /// An operation on its way.
  struct Run {
    Operation* operation;
    std::unique_ptr<Collective> collective;
    bool posted = false;
  };
  using Direction = std::pair<Rank, bool>;  // peer, whether it sends

  static Direction direction_of(const Operation& operation) {
    return {operation.request.root, operation.request.kind == CollectiveKind::send};
  }
  Result<bool> connect(Rank peer, Deadline deadline);
  Status post(Run& run);
  std::unique_ptr<Collective> spare();

  Endpoint* const endpoint_;
  const std::span<const Bytes> addresses_;
  const Rank rank_;
  std::vector<Run> runs_;  // in the order of their starts
  std::set<Rank> connected_;
  std::map<Direction, std::uint32_t> in_flight_;  // works
  std::vector<std::unique_ptr<Collective>> spares_;
  bool connecting_ = false;
  std::uint64_t begun_ = 0;
};

}  // namespace rondel
