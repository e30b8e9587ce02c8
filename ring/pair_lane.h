// SPDX-License-Identifier: Apache-2.0
// PairLane: runs sends and receives over a communicator's second endpoint. They progress side by side; those
// of one pair and direction keep the order of their starts. Two ranks connect when they first exchange
// something; waiting for that holds up nobody else. Driver thread only.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include "ring/operation.h"

namespace rondel {

class PairLane {
 public:
  PairLane(Endpoint* endpoint, std::span<const Bytes> addresses)
      : known_memory(endpoint), endpoint_(endpoint), addresses_(addresses), peers_(addresses.size()) {}

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
    std::uint32_t works;  // that it is cut into
    bool posted = false;
  };
  /// What goes to one peer, or comes from it.
  struct Direction {
    std::uint32_t in_flight = 0;  // works
    bool held_up = false;         // in this look: an earlier operation is not posted yet
  };
  struct Peer {
    bool connected = false;
    bool tried = false;  // in this look: to connect
    std::array<Direction, 2> directions;
  };

  Peer& peer_of(const Run& run) { return peers_[static_cast<std::size_t>(run.operation->request.root)]; }
  Direction& direction_of(const Run& run) {
    return peer_of(run).directions[run.operation->request.kind == CollectiveKind::send ? 0 : 1];
  }
  Status post_waiting();
  /// Whether it could be posted.
  Result<bool> post(Run& run, Direction& way);
  Result<bool> connect(const Run& run);
  void build_works(const Run& run);

  Endpoint* const endpoint_;
  const std::span<const Bytes> addresses_;
  std::vector<Peer> peers_;  // by rank
  std::vector<Run> runs_;    // in the order of their starts
  std::size_t waiting_ = 0;  // of these to be posted
  bool connecting_ = false;  // in the last look
  std::uint64_t begun_ = 0;
  std::vector<Slice> slices_;  // of what is posted
  std::vector<Work> works_;
};

}  // namespace rondel
