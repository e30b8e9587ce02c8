// SPDX-License-Identifier: Apache-2.0
#include "ring/staged.h"

#include <fmt/format.h>

#include <algorithm>
#include <cstring>
#include <limits>

#include "lib/reduce.h"

namespace rondel {
namespace {

// So many blocks of a share may be on their way. Small blocks cost more in waiting for one another than they
// gain in overlap.
constexpr std::uint64_t kDepth = 4;
constexpr std::size_t kLeastBlockBytes = 16 * 1024;
constexpr std::size_t kMostBlockBytes = 64 * 1024;
constexpr std::size_t kBlocksOfSmallShare = 4;
constexpr std::size_t kAlignment = 64;        // a multiple of every element's size
constexpr std::size_t kFoldBytes = 8 * 1024;  // stays in the first cache until it is copied

constexpr std::size_t rounded_up(std::size_t bytes) {
  return (bytes + kAlignment - 1) / kAlignment * kAlignment;
}

}  // namespace

Staged::Staged(LoadStore& memory, Rank rank, std::span<DirectBoard* const> boards)
    : memory_(memory),
      rank_(rank),
      size_(static_cast<Rank>(boards.size())),
      boards_(boards),
      sources_(boards.size()) {}

void Staged::begin(const Operation& operation) {
  request_ = &operation.request;
  const auto ranks = static_cast<std::size_t>(size_);
  total_bytes_ = request_->count * size_of(request_->type);
  share_bytes_ = rounded_up((total_bytes_ + ranks - 1) / ranks);
  block_bytes_ =
      std::clamp(rounded_up(share_bytes_ / kBlocksOfSmallShare), kLeastBlockBytes, kMostBlockBytes);
  begin_ = given_ = summed_ = taken_ = end_;
  end_ = begin_ + (share_bytes_ + block_bytes_ - 1) / block_bytes_;
}

// ---- the stages

std::size_t Staged::stage_bytes() const { return static_cast<std::size_t>(size_) * kDepth * kMostBlockBytes; }

/// On the stage of one rank, where a block of another's share lies; of its own share the sums.
std::byte* Staged::slot(Rank stage, Rank share, std::uint64_t block) const {
  const std::uint64_t index = static_cast<std::uint64_t>(share) * kDepth + block % kDepth;
  return stages_[static_cast<std::size_t>(stage)] + index * kMostBlockBytes;
}

/// Makes this rank's stage, if that can be, and says so. Not yet, while there is no room to tell a peer of
/// it.
void Staged::open() {
  if (!stage_) {
    auto made = SharedMemory::create(stage_bytes());
    if (made.ok()) stage_ = std::move(made).value();
  }
  if (stage_) own().memory = memory_.share(stage_->data(), stage_bytes());
  if (stage_ && own().memory.region == 0) return;
  own().state.store(stage_ ? DirectBoard::Stage::kUsable : DirectBoard::Stage::kNone,
                    std::memory_order_release);  // pairs with advance()
  memory_.published();
}

Status Staged::can_not_map(Rank rank) {
  return Status(
      Code::out_of_resources, fmt::format("the memory of rank {} can not be mapped", rank),
      "see vm.max_map_count and the limits on address space (ulimit -v) and open files (ulimit -n), "
      "or set RONDEL_ALGORITHM=ring");
}

Status Staged::reach_all() {
  std::vector<std::byte*> reached(boards_.size());
  for (Rank rank = 0; rank < size_; ++rank) {
    auto& stage = reached[static_cast<std::size_t>(rank)];
    stage = rank == rank_ ? stage_->data() : memory_.reach(rank, stage_of(rank).memory, stage_bytes());
    if (stage == nullptr) return can_not_map(rank);
  }
  stages_ = std::move(reached);
  return {};
}

// ---- moving

Result<Staged::State> Staged::advance() {
  if (own().state.load(std::memory_order_relaxed) == DirectBoard::Stage::kUnknown) open();
  if (stages_.empty()) {
    bool declined = false;
    for (Rank rank = 0; rank < size_; ++rank) {
      const auto state = stage_of(rank).state.load(std::memory_order_acquire);  // pairs with open()
      if (state == DirectBoard::Stage::kUnknown) return State::waiting;
      declined |= state == DirectBoard::Stage::kNone;
    }
    if (declined) return State::declined;
    RONDEL_TRY(reach_all());
  }
  for (bool moves = true; moves;) {
    moves = false;
    if (can_give()) give(), moves = true;
    if (can_sum()) sum(), moves = true;
    if (can_take()) take(), moves = true;
    if (moves) memory_.published();
  }
  return taken_ == end_ && summed_ == end_ ? State::done : State::waiting;
}

/// The bytes of a block: where they begin in the vector, and how many there are.
std::pair<std::size_t, std::size_t> Staged::place_of(Rank share, std::uint64_t block) const {
  const std::size_t first = std::min(total_bytes_, share_bytes_ * static_cast<std::size_t>(share));
  const std::size_t last = std::min(total_bytes_, first + share_bytes_);
  const std::size_t begin = std::min(last, first + static_cast<std::size_t>(block - begin_) * block_bytes_);
  return {begin, std::min(block_bytes_, last - begin)};
}

void Staged::raise(Counter counter, std::uint64_t value) {
  (own().*counter).store(value, std::memory_order_release);  // pairs with count()
}

// A slot is free again when all have done with the block that is kDepth before.
bool Staged::lets_give(const DirectBoard::Stage& other) const {
  return count(other, &DirectBoard::Stage::summed) + kDepth > given_;
}
bool Staged::lets_sum(const DirectBoard::Stage& other) const {
  return count(other, &DirectBoard::Stage::given) > summed_ &&
         count(other, &DirectBoard::Stage::taken) + kDepth > summed_;
}
bool Staged::lets_take(const DirectBoard::Stage& other) const {
  return count(other, &DirectBoard::Stage::summed) > taken_;
}

bool Staged::all_let(bool (Staged::*step)(const DirectBoard::Stage&) const) const {
  for (Rank rank = 0; rank < size_; ++rank)
    if (rank != rank_ && !(this->*step)(stage_of(rank))) return false;
  return true;
}

void Staged::give() {
  const auto* const input = static_cast<const std::byte*>(request_->input);
  std::uint64_t stored = 0;
  for (Rank share = 0; share < size_; ++share) {
    if (share == rank_) continue;
    const auto [at, bytes] = place_of(share, given_);
    std::memcpy(slot(rank_, share, given_), input + at, bytes);
    stored += bytes;
  }
  memory_.count(0, stored);
  raise(&DirectBoard::Stage::given, ++given_);
}

void Staged::sum() {
  const auto [begin, bytes] = place_of(rank_, summed_);
  const auto* const input = static_cast<const std::byte*>(request_->input);
  auto* const output = static_cast<std::byte*>(request_->output);
  for (std::size_t done = 0; done < bytes; done += kFoldBytes) {
    const std::size_t piece = std::min(kFoldBytes, bytes - done);
    for (Rank rank = 0; rank < size_; ++rank)
      sources_[static_cast<std::size_t>(rank)] =
          (rank == rank_ ? input + begin : slot(rank, rank_, summed_)) + done;
    fold_many(request_->type, request_->op, output + begin + done, sources_, piece / size_of(request_->type));
    std::memcpy(slot(rank_, rank_, summed_) + done, output + begin + done, piece);
  }
  const std::uint64_t others = bytes * static_cast<std::uint64_t>(size_ - 1);
  memory_.count(others, others);
  raise(&DirectBoard::Stage::summed, ++summed_);
}

void Staged::take() {
  auto* const output = static_cast<std::byte*>(request_->output);
  std::uint64_t loaded = 0;
  for (Rank share = 0; share < size_; ++share) {
    if (share == rank_) continue;
    const auto [at, bytes] = place_of(share, taken_);
    std::memcpy(output + at, slot(share, share, taken_), bytes);
    loaded += bytes;
  }
  memory_.count(loaded, 0);
  raise(&DirectBoard::Stage::taken, ++taken_);
}

// ---- waiting

bool Staged::ready() const {
  if (stages_.empty()) return waiting_for() == kNoRank;
  return can_give() || can_sum() || can_take();
}

bool Staged::lags(Rank rank) const {
  if (rank == rank_) return false;
  const DirectBoard::Stage& stage = stage_of(rank);
  if (stages_.empty())
    return stage.state.load(std::memory_order_acquire) == DirectBoard::Stage::kUnknown;  // pairs with open()
  return (given_ < end_ && !lets_give(stage)) || (summed_ < end_ && !lets_sum(stage)) ||
         (taken_ < end_ && !lets_take(stage));
}

Rank Staged::waiting_for() const {
  Rank last = kNoRank;
  std::uint64_t least = std::numeric_limits<std::uint64_t>::max();
  for (Rank rank = 0; rank < size_; ++rank) {
    if (!lags(rank)) continue;
    const DirectBoard::Stage& stage = stage_of(rank);
    const std::uint64_t blocks = count(stage, &DirectBoard::Stage::given) +
                                 count(stage, &DirectBoard::Stage::summed) +
                                 count(stage, &DirectBoard::Stage::taken);
    if (blocks < least) last = rank;
    least = std::min(least, blocks);
  }
  return last;
}

}  // namespace rondel
