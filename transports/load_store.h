// SPDX-License-Identifier: Apache-2.0
// LoadStore: what an endpoint offers beside works where its ranks can load from and store to one another's
// memory. Each rank has a board, which all connected peers see; what the boards hold is the caller's affair.
// Driver thread only; owned by the endpoint.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>

#include "lib/status.h"
#include "lib/types.h"

namespace rondel {

/// Something that a peer's stores will bring about.
class Awaited {
 public:
  virtual ~Awaited() = default;
  virtual bool ready() const = 0;
  /// Whether it can not be ready before that peer has stored something more.
  virtual bool waits_for(Rank peer) const = 0;
};

class LoadStore {
 public:
  static constexpr std::size_t kBoardBytes = 16 * 1024;

  /// How a rank names a run of its memory to the others.
  struct Reference {
    std::uint64_t region = 0;  ///< 0: they can not reach it
    std::uint64_t offset = 0;
  };

  virtual ~LoadStore() = default;
  /// Makes this rank's board, all zero, and shows it to the peers that are connected now.
  virtual Status open_board() = 0;
  /// This rank's board; empty before open_board(). Aligned to a cache line.
  virtual std::span<std::byte> board() = 0;
  /// A peer's; null while it has not shown one.
  virtual std::byte* board_of(Rank peer) = 0;
  /// Lets all connected peers reach [data, data + bytes), if that can be.
  virtual Reference share(const void* data, std::size_t bytes) = 0;
  /// Where a peer's memory is here, for loads and stores; null when it was not shared or is shorter.
  virtual std::byte* reach(Rank peer, Reference what, std::size_t bytes) = 0;
  /// To be called after stores to boards that a peer may wait for: wakes those that sleep.
  virtual void published() = 0;
  /// While set, progress() also returns (at least 1) when it is ready, and waits for it; a peer that has gone
  /// while it is waited for is lost. Null: nothing.
  virtual void await(const Awaited* awaited) = 0;
  /// For the endpoint's counters.
  virtual void count(std::uint64_t loaded_bytes, std::uint64_t stored_bytes) = 0;
};

}  // namespace rondel
