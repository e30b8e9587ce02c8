// SPDX-License-Identifier: Apache-2.0
// The circulant algorithm (J. L. Traeff, "Optimal, non-pipelined reduce-scatter and allreduce algorithms",
// 2024). Rank r numbers the blocks from its own: i stands for block r+i. The skips are size, ceil(size/2),
// ... , 1. In the round from skip `upper` down to `lower`, rank r sends its partial sums of blocks lower ..
// upper-1 to rank r+lower and folds what comes from rank r-lower into blocks 0 .. upper-lower-1; after the
// last round block 0 is complete. The all-gather runs the rounds backwards. Every phase moves size-1 blocks
// in ceil(log2 size) rounds.
//
// For a power of two the sums associate exactly as in recursive doubling, which can therefore take its place.
#include <algorithm>

#include "ring/schedule_builder.h"

namespace rondel {
namespace {

constexpr std::uint32_t kSlicesThatFitAnyRound = 4;

class Circulant {
 public:
  Circulant(ScheduleBuilder& builder, std::vector<Range> blocks)
      : builder_(builder),
        shape_(builder.shape()),
        blocks_(std::move(blocks)),
        skips_(circulant_skips(builder.size())),
        contributions_(static_cast<std::size_t>(builder.size()), 1) {}

  void all_reduce();
  void reduce_scatter();
  void all_gather();

 private:
  struct Round {
    Rank lower, upper;
    Rank blocks() const { return upper - lower; }
  };
  Round round(std::size_t index) const {
    return {skips_[index], index == 0 ? builder_.size() : skips_[index - 1]};
  }

  Range block(Rank i) const;
  bool wraps_at(Rank i) const { return builder_.around(i) == 0; }
  bool few_slices() const { return shape_.max_slices < kSlicesThatFitAnyRound; }
  std::uint64_t contributions(Rank i) const { return contributions_[static_cast<std::size_t>(i)]; }
  bool folded(Rank i) const { return contributions(i) > 1; }
  Extent at(Place place, Range elements) const { return extent_of(shape_, place, elements); }

  void lay_out_scratch();
  Extent partial(Rank i) const;
  Extent operand(Rank i) const { return folded(i) ? partial(i) : at(Place::input, block(i)); }
  Extent result() const;
  bool cut_reduce(Round round, Rank i) const;
  void reduce_rounds();
  void reduce_round(Round round);
  bool cut_gather(Rank i) const;
  Extent gathered(Rank i) const;
  void gather_rounds();
  void gather_round(Round round);

  ScheduleBuilder& builder_;
  const Shape& shape_;
  const std::vector<Range> blocks_;
  const std::vector<Rank> skips_;
  std::vector<std::uint64_t>
      contributions_;         // ranks that are in the partial sum of block i; equal on all ranks
  std::uint64_t passes_ = 1;  // each works on one part of every block
  std::uint64_t pass_ = 0;
  Extent room_;                  // scratch for partial sums; none: they are kept in output
  std::vector<Extent> scratch_;  // by i
  bool whole_output_ = false;
  bool from_input_ = false;  // all-gather: the own block is in input
};

/// Calls visit(begin, end) for the runs of 0 .. count-1 that cut(i), i > 0, separates.
template <class Cut, class Visit>
void for_runs(Rank count, const Cut& cut, const Visit& visit) {
  for (Rank begin = 0; begin < count;) {
    Rank end = begin + 1;
    while (end < count && !cut(end)) ++end;
    visit(begin, end);
    begin = end;
  }
}

Range Circulant::block(Rank i) const {
  const Range& whole = blocks_[static_cast<std::size_t>(builder_.around(i))];
  const Range in_pass = part_of(whole.count, passes_, pass_);
  return {whole.begin + in_pass.begin, in_pass.count};
}

/// Blocks that get partial sums lie in the order of i, so that those of one round touch.
void Circulant::lay_out_scratch() {
  scratch_.clear();
  std::uint64_t offset = 0;
  for (Rank i = 0; i < builder_.size() - skips_.front(); ++i) {
    scratch_.push_back(part(room_, offset, block(i).count * shape_.element_bytes));
    offset += scratch_.back().bytes;
  }
}

Extent Circulant::partial(Rank i) const {
  return scratch_.empty() ? at(Place::output, block(i)) : scratch_[static_cast<std::size_t>(i)];
}

Extent Circulant::result() const {
  Range elements = block(0);
  if (!whole_output_) elements.begin -= blocks_[static_cast<std::size_t>(builder_.rank())].begin;
  return at(Place::output, elements);
}

/// Whether sender and receiver start a new work at block i of the round: where the weights of a mean change
/// and where a work would get more slices than the endpoint takes. Both sides come to the same answer.
bool Circulant::cut_reduce(Round round, Rank i) const {
  const Rank sent = round.lower + i;
  if (shape_.averaging == Averaging::weighted &&
      (contributions(i) != contributions(i - 1) || contributions(sent) != contributions(sent - 1)))
    return true;
  if (passes_ > 1 && i % static_cast<Rank>(shape_.max_slices) == 0) return true;
  return few_slices() && (folded(i) != folded(i - 1) || folded(sent) != folded(sent - 1));
}

void Circulant::reduce_round(Round round) {
  builder_.step();
  const auto cut_sent = [&](Rank i) {
    return cut_reduce(round, i) || (few_slices() && wraps_at(round.lower + i));
  };
  for_runs(round.blocks(), cut_sent, [&](Rank begin, Rank end) {
    ExtentList sent;
    for (Rank i = begin; i < end; ++i) sent.add(operand(round.lower + i));
    builder_.send(builder_.around(round.lower), sent);
  });
  const bool last = round.lower == 1;
  const auto cut_received = [&](Rank i) { return cut_reduce(round, i) || (few_slices() && wraps_at(i)); };
  for_runs(round.blocks(), cut_received, [&](Rank begin, Rank end) {
    ExtentList destination, other;
    for (Rank i = begin; i < end; ++i) {
      destination.add(last ? result() : partial(i));
      other.add(operand(i));
    }
    const Fold fold{(builder_.rank() & round.lower) != 0,
                    share_of(contributions(round.lower + begin), contributions(begin))};
    builder_.recv_reduce(builder_.around(-round.lower), destination, other, fold);
  });
}

void Circulant::reduce_rounds() {
  if (room_.bytes > 0) lay_out_scratch();
  std::ranges::fill(contributions_, 1);
  for (std::size_t k = 0; k < skips_.size(); ++k) {
    reduce_round(round(k));
    for (Rank i = 0; i < round(k).blocks(); ++i)
      contributions_[static_cast<std::size_t>(i)] += contributions(round(k).lower + i);
  }
  if (shape_.averaging == Averaging::divide) builder_.divide(result());
}

Extent Circulant::gathered(Rank i) const {
  if (i == 0 && from_input_) return {Place::input, 0, block(0).count * shape_.element_bytes};
  return at(Place::output, block(i));
}

/// As cut_reduce, by the sender's block number.
bool Circulant::cut_gather(Rank i) const { return few_slices() && (wraps_at(i) || (from_input_ && i == 1)); }

void Circulant::gather_round(Round round) {
  for_runs(
      round.blocks(), [&](Rank i) { return cut_gather(i); },
      [&](Rank begin, Rank end) {
        ExtentList sent;
        for (Rank i = begin; i < end; ++i) sent.add(gathered(i));
        builder_.send(builder_.around(-round.lower), sent);
      });
  const auto cut = [&](Rank i) {
    return few_slices() && (wraps_at(round.lower + i) || (from_input_ && i == 1));
  };
  for_runs(round.blocks(), cut, [&](Rank begin, Rank end) {
    ExtentList received;
    for (Rank i = begin; i < end; ++i) received.add(gathered(round.lower + i));
    builder_.recv(builder_.around(round.lower), received);
  });
}

void Circulant::gather_rounds() {
  for (std::size_t k = skips_.size(); k-- > 0;) {
    builder_.step();
    gather_round(round(k));
    if (from_input_ && k + 1 == skips_.size() && !shape_.in_place)
      builder_.copy(at(Place::output, block(0)), gathered(0));
  }
}

void Circulant::all_reduce() {
  whole_output_ = true;
  if (builder_.size() > 2) {
    const std::uint64_t kept = static_cast<std::uint64_t>(builder_.size() - skips_.front());
    const std::uint64_t bytes = kept * largest_count(blocks_) * shape_.element_bytes;
    if (bytes > std::min(shape_.scratch_limit_bytes, kPartialsInScratchBytes))
      builder_.agree();
    else
      room_ = builder_.scratch(bytes);
  }
  reduce_rounds();
  gather_rounds();
}

void Circulant::reduce_scatter() {
  if (any_empty(blocks_)) builder_.agree();  // an empty block's owner hears from nobody
  if (builder_.size() > 2) {
    const std::uint64_t kept = static_cast<std::uint64_t>(builder_.size() - skips_.front());
    const std::uint64_t row_bytes = kept * shape_.element_bytes;
    const std::uint64_t row_limit = std::max<std::uint64_t>(1, shape_.scratch_limit_bytes / row_bytes);
    passes_ = pieces_for(largest_count(blocks_), row_limit);
    room_ = builder_.scratch(row_bytes * pieces_for(largest_count(blocks_), passes_));
  }
  for (pass_ = 0; pass_ < passes_; ++pass_) reduce_rounds();
}

void Circulant::all_gather() {
  from_input_ = true;
  if (builder_.size() > 2 || any_empty(blocks_)) builder_.agree();
  gather_rounds();
}

}  // namespace

std::vector<Rank> circulant_skips(Rank size) {
  std::vector<Rank> skips;
  for (Rank skip = size; skip > 1;) {
    skip = (skip + 1) / 2;
    skips.push_back(skip);
  }
  return skips;
}

void write_circulant(ScheduleBuilder& builder) {
  const Shape& shape = builder.shape();
  if (shape.kind == CollectiveKind::all_reduce) Circulant(builder, blocks_of_total(shape)).all_reduce();
  if (shape.kind == CollectiveKind::reduce_scatter)
    Circulant(builder, blocks_of_counts(shape)).reduce_scatter();
  if (shape.kind == CollectiveKind::all_gather) Circulant(builder, blocks_of_counts(shape)).all_gather();
}

}  // namespace rondel
