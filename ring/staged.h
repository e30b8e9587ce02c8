// SPDX-License-Identifier: Apache-2.0
// Staged: all-reduce of ranks on one machine whose buffers the others can not reach. Each rank has a stage,
// memory that all reach, and gives the others their shares of its input there, block by block; each sums its
// own share in the order of ranks, as Direct does, and lays the sums on its stage for all to take. A few
// blocks are on their way at once, so what is copied twice stays in the caches. Nobody but a rank itself
// touches its buffers. Part of Direct, whose boards hold the counters; driver thread only. It never waits.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <utility>
#include <vector>

#include "lib/shared_memory.h"
#include "ring/direct_board.h"
#include "ring/operation.h"
#include "transports/load_store.h"

namespace rondel {

class Staged {
 public:
  /// `boards` are filled in by rank, for all ranks, before the first begin().
  Staged(LoadStore& memory, Rank rank, std::span<DirectBoard* const> boards);

  static Status can_not_map(Rank rank);
  static bool runs(const CollectiveRequest& request) { return request.kind == CollectiveKind::all_reduce; }

  enum class State { waiting, done, declined };  // declined: by all ranks; some rank has no stage
  void begin(const Operation& operation);
  /// Does what can be done without waiting.
  Result<State> advance();
  bool ready() const;
  /// Whether this rank waits for `rank`.
  bool lags(Rank rank) const;
  /// The one of those that lag which has done least: the others may wait for it too.
  Rank waiting_for() const;

 private:
  using Counter = std::atomic<std::uint64_t> DirectBoard::Stage::*;

  const DirectBoard::Stage& stage_of(Rank rank) const {
    return boards_[static_cast<std::size_t>(rank)]->stage;
  }
  DirectBoard::Stage& own() { return boards_[static_cast<std::size_t>(rank_)]->stage; }
  std::size_t stage_bytes() const;
  std::byte* slot(Rank stage, Rank share, std::uint64_t block) const;
  std::pair<std::size_t, std::size_t> place_of(Rank share, std::uint64_t block) const;
  static std::uint64_t count(const DirectBoard::Stage& stage, Counter counter) {
    return (stage.*counter).load(std::memory_order_acquire);  // pairs with raise()
  }
  void raise(Counter counter, std::uint64_t value);

  void open();
  Status reach_all();
  /// Whether what another rank has done lets this one go on with its next block.
  bool lets_give(const DirectBoard::Stage& other) const;
  bool lets_sum(const DirectBoard::Stage& other) const;
  bool lets_take(const DirectBoard::Stage& other) const;
  bool all_let(bool (Staged::*step)(const DirectBoard::Stage&) const) const;
  bool can_give() const { return given_ < end_ && all_let(&Staged::lets_give); }
  bool can_sum() const { return summed_ < end_ && all_let(&Staged::lets_sum); }
  bool can_take() const { return taken_ < end_ && all_let(&Staged::lets_take); }
  void give();
  void sum();
  void take();

  LoadStore& memory_;
  const Rank rank_;
  const Rank size_;
  const std::span<DirectBoard* const> boards_;
  std::optional<SharedMemory> stage_;
  std::vector<std::byte*> stages_;  // by rank; empty until all are reached

  const CollectiveRequest* request_ = nullptr;
  std::size_t total_bytes_ = 0;
  std::size_t share_bytes_ = 0;
  std::size_t block_bytes_ = 0;
  std::uint64_t begin_ = 0;  // the blocks of this operation, counted since the beginning
  std::uint64_t end_ = 0;
  std::uint64_t given_ = 0;
  std::uint64_t summed_ = 0;
  std::uint64_t taken_ = 0;
  std::vector<const void*> sources_;
};

}  // namespace rondel
