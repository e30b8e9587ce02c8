// SPDX-License-Identifier: Apache-2.0
// CollectiveLane: runs the collectives of one communicator one after another, in the order they were started,
// over its data endpoint. Connects peers when a pattern of exchange is first used, after an agreement that
// all ranks mean the same operation, so that a rank that calls something else is an error and not a wait.
// Driver thread only.
#pragma once

#include <deque>
#include <optional>
#include <set>
#include <span>

#include "ring/direct.h"
#include "ring/health.h"
#include "ring/operation.h"
#include "ring/scratch.h"

namespace rondel {

class CollectiveLane {
 public:
  /// `endpoint` is null for a single rank. `addresses` and everything else outlive the lane.
  /// `direct`: loads and stores are used where they can be.
  CollectiveLane(Endpoint* endpoint, std::span<const Bytes> addresses, Rank rank, Rank size, Planner& planner,
                 Health& health, bool direct);

  /// The operation stays where it is until it is done.
  void enqueue(Operation& operation) { queue_.push_back(&operation); }
  bool idle() const { return queue_.empty(); }
  /// How many operations this lane was ever given.
  std::uint64_t started() const { return begun_ + queue_.size() - (phase_ == Phase::idle ? 0 : 1); }
  /// The operation that runs; only when not idle().
  Operation& current() { return *queue_.front(); }
  Rank waiting_for() const {
    return phase_ == Phase::direct ? direct_->waiting_for() : collective_.waiting_for();
  }
  /// Set when advance() failed because the ranks do not mean the same, and no endpoint knows of it.
  std::optional<LabelMismatch> mismatch() const { return direct_ ? direct_->mismatch() : std::nullopt; }

  /// Does all that can be done without waiting, except that the first use of a pattern tries for a moment to
  /// connect.
  Status advance();
  /// Peers have not connected yet, which progress() of the endpoint does not report.
  bool connecting() const { return phase_ == Phase::connecting; }
  /// Ends everything with `failure`.
  void fail(const Status& failure);

  KnownMemory known_memory;  // goes before the endpoint

 private:
  enum class Phase : std::uint8_t { idle, agreeing, connecting, running, direct };

  Status begin_next();
  /// Whether the operation that runs is done.
  Result<bool> advance_current();
  Result<bool> advance_direct();
  Status begin_messages(Operation& operation);
  void begin_connecting(const Operation& operation);
  /// Whether all that the operation needs are connected, and it has begun.
  Result<bool> advance_connecting();
  bool wants_direct(const Operation& operation) const;
  void begin_direct(Operation& operation);
  Status begin_agreement(Operation& operation);
  Status begin_schedule(Operation& operation);

  Endpoint* const endpoint_;
  const std::span<const Bytes> addresses_;
  const Rank rank_;
  const Rank size_;
  Planner& planner_;
  Health& health_;
  const Schedule agreement_;
  Collective collective_;
  std::optional<Direct> direct_;
  std::optional<Scratch> scratch_;
  std::set<std::uint64_t> connected_patterns_;
  std::vector<Rank> peers_;  // while connecting
  std::deque<Operation*> queue_;
  Phase phase_ = Phase::idle;
  std::uint64_t begun_ = 0;
};

}  // namespace rondel
