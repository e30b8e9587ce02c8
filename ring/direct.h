// SPDX-License-Identifier: Apache-2.0
// Direct: collectives of ranks that reach one another's memory, by loads and stores. Every rank offers its
// buffers on its board; when all have, each makes its part of the result and stores it where it belongs, and
// when all have done that, all are done. Contributions are folded in the order of ranks, each element by one
// rank, so all get the same bits. Two waits and no message: the lower bound of memory traffic, each input
// read once and each output written once. What fits on a board needs one wait; sums of memory that is out of
// reach go over stages (staged.h). Owned by a lane; driver thread only. Waits nowhere but in its destructor,
// for peers that are in the middle of a store.
#pragma once

#include <cstdint>
#include <optional>
#include <string_view>
#include <vector>

#include "ring/direct_board.h"
#include "ring/operation.h"
#include "ring/staged.h"
#include "transports/endpoint.h"
#include "transports/load_store.h"

namespace rondel {

class Direct final : public Awaited {
 public:
  /// More ranks than this on one machine use messages.
  static constexpr Rank kMostRanks = 16;

  Direct(LoadStore& memory, Rank rank, Rank size);
  ~Direct() override;

  static bool runs(const CollectiveRequest& request);

  /// Shows this rank's board; all ranks are connected.
  Status open();
  bool is_open() const { return board_ != nullptr; }

  using State = Staged::State;  // declined: by all ranks; some memory can not be reached
  void begin(const Operation& operation);
  /// Does what can be done without waiting. mismatch when the ranks do not mean the same.
  Result<State> advance();
  bool ready() const override;
  bool waits_for(Rank rank) const override;
  Rank waiting_for() const { return phase_ == Phase::staging ? staged_.waiting_for() : next_; }
  const std::optional<LabelMismatch>& mismatch() const { return mismatch_; }

  /// This rank runs a collective by messages: those who wait for it here must learn of it.
  void note_elsewhere(const Operation& operation);

  /// Gives up: when it returns, no peer touches this rank's buffers, unless it is stopped in the middle.
  void close() noexcept;

 private:
  enum class Phase { idle, meeting, gathering, finishing, staging };

  DirectBoard* board_of(Rank rank) const { return boards_[static_cast<std::size_t>(rank)]; }
  const DirectBoard::Slot& slot_of(Rank rank) const { return board_of(rank)->slots[number_ % 2]; }
  bool take_boards();
  void offer();
  bool fits_on_board() const;
  bool offered(Rank rank) const;
  bool is_elsewhere(Rank rank) const;
  bool has_closed(Rank rank) const;
  Rank first_closed() const;
  static Status lost(Rank peer);
  bool stands_ready(Rank rank) const;
  Status differ(Rank peer, const Label& theirs);
  const std::byte* payload_of(Rank rank) const;
  Result<State> start_work();
  Result<State> advance_staged();
  State end(State state);
  void tell(std::string_view way);
  Result<bool> reach_all();
  bool work();
  void work_on_boards();
  void assemble();
  std::size_t bytes_assembled() const;
  void all_reduce();
  bool peer_closed() const;

  LoadStore& memory_;
  const Rank rank_;
  const Rank size_;
  DirectBoard* board_ = nullptr;
  std::vector<DirectBoard*> boards_;
  Staged staged_;

  const Operation* operation_ = nullptr;
  std::uint64_t number_ = 0;
  Phase phase_ = Phase::idle;
  bool reachable_ = true;  // what this rank offers
  Rank next_ = 0;          // whom this rank waits for
  std::vector<const void*> inputs_;
  std::vector<std::byte*> outputs_;
  std::vector<const void*> sources_;  // of a block
  std::vector<void*> destinations_;
  std::optional<LabelMismatch> mismatch_;
  std::string_view told_;  // the way of the last operation
};

}  // namespace rondel
