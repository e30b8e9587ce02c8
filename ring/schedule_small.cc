// SPDX-License-Identifier: Apache-2.0
// Short latencies for small payloads. One shot: everybody sends everything to everybody and folds (or keeps)
// it locally, in rank order. Recursive doubling: ranks exchange whole vectors with partners at halving
// distances. Both touch the output only when every rank has been heard, so neither needs an agreement.
#include <algorithm>
#include <bit>

#include "ring/schedule_builder.h"

namespace rondel {
namespace {

/// The places that ranks have in recursive doubling. Ranks beyond the largest power of two are extra: they
/// hand their vector to a partner first and get the result last. The others have a position each.
struct Positions {
  explicit Positions(Rank size)
      : count(static_cast<Rank>(std::bit_floor(static_cast<std::uint32_t>(size)))), extras(size - count) {}

  bool extra(Rank rank) const { return rank < 2 * extras && rank % 2 == 1; }
  Rank position_of(Rank rank) const { return rank < 2 * extras ? rank / 2 : rank - extras; }
  Rank rank_at(Rank position) const { return position < extras ? 2 * position : position + extras; }

  const Rank count;
  const Rank extras;
};

/// Folds in the order of recursive doubling, so that the sums have its bits. An operand's own scratch takes
/// the sum; the input is never written.
void fold_pairwise(ScheduleBuilder& builder, std::vector<Extent> operands, Extent output) {
  const Positions positions(builder.size());
  const auto fold = [&](Rank into, Rank from, bool last) {
    Extent& first = operands[static_cast<std::size_t>(into)];
    const Extent second = operands[static_cast<std::size_t>(from)];
    const Extent sum = last ? output : first.place == Place::scratch ? first : second;
    builder.fold(sum, first, second);
    first = sum;
  };
  for (Rank i = 0; i < positions.extras; ++i) fold(2 * i, 2 * i + 1, false);
  for (Rank bit = positions.count / 2; bit > 0; bit /= 2)
    for (Rank p = 0; p < bit; ++p) fold(positions.rank_at(p), positions.rank_at(p + bit), bit == 1);
  if (builder.shape().averaging == Averaging::divide) builder.divide(output);
}

void one_shot_all_reduce(ScheduleBuilder& builder) {
  const Extent input = extent_of(builder.shape(), Place::input, {0, builder.shape().count});
  const Extent output{Place::output, 0, input.bytes};
  std::vector<Extent> operands(static_cast<std::size_t>(builder.size()), input);
  builder.step();
  for (Rank distance = 1; distance < builder.size(); ++distance)
    builder.send(builder.around(distance), {input});
  for (Rank distance = 1; distance < builder.size(); ++distance) {
    const Rank peer = builder.around(-distance);
    operands[static_cast<std::size_t>(peer)] = builder.scratch(input.bytes);
    builder.recv(peer, {operands[static_cast<std::size_t>(peer)]});
  }
  if (builder.shape().fold_pairwise)
    fold_pairwise(builder, std::move(operands), output);
  else
    builder.fold_many(output, operands);
}

void one_shot_all_gather(ScheduleBuilder& builder) {
  const Shape& shape = builder.shape();
  const std::vector<Range> blocks = blocks_of_counts(shape);
  if (any_empty(blocks)) builder.agree();
  const auto own = static_cast<std::size_t>(builder.rank());
  const Extent input = extent_of(shape, Place::input, {0, blocks[own].count});
  builder.step();
  for (Rank distance = 1; distance < builder.size(); ++distance)
    builder.send(builder.around(distance), {input});
  std::vector<Extent> received(blocks.size(), input);
  for (Rank distance = 1; distance < builder.size(); ++distance) {
    const auto peer = static_cast<std::size_t>(builder.around(-distance));
    received[peer] = builder.scratch(blocks[peer].count * shape.element_bytes);
    builder.recv(builder.around(-distance), {received[peer]});
  }
  for (std::size_t rank = 0; rank < blocks.size(); ++rank)
    if (rank != own || !shape.in_place)
      builder.copy(extent_of(shape, Place::output, blocks[rank]), received[rank]);
}

void one_shot_all_to_all(ScheduleBuilder& builder) {
  const Shape& shape = builder.shape();
  const auto block = [&shape](Place place, Rank rank) {
    return extent_of(shape, place, {static_cast<std::uint64_t>(rank) * shape.count, shape.count});
  };
  builder.step();
  std::vector<Extent> received(static_cast<std::size_t>(builder.size()), block(Place::input, builder.rank()));
  for (Rank distance = 1; distance < builder.size(); ++distance) {
    const Rank target = builder.around(distance);
    builder.send(target, {block(Place::input, target)});
    const Rank source = builder.around(-distance);
    received[static_cast<std::size_t>(source)] = builder.scratch(shape.count * shape.element_bytes);
    builder.recv(source, {received[static_cast<std::size_t>(source)]});
  }
  for (Rank rank = 0; rank < builder.size(); ++rank)
    builder.copy(block(Place::output, rank), received[static_cast<std::size_t>(rank)]);
}

/// Positions exchange with the position that differs in one bit, highest bit first, which sums in the
/// circulant algorithm's order when there are no extra ranks.
class RecursiveDoubling {
 public:
  explicit RecursiveDoubling(ScheduleBuilder& builder)
      : builder_(builder),
        positions_(builder.size()),
        whole_(extent_of(builder.shape(), Place::output, {0, builder.shape().count})),
        current_(extent_of(builder.shape(), Place::input, {0, builder.shape().count})) {}

  void write();

 private:
  std::uint64_t contributions_at(Rank position, Rank bit) const;
  Extent spare();
  void exchange(Rank bit);

  ScheduleBuilder& builder_;
  const Positions positions_;
  const Extent whole_;
  Extent current_;  // where this rank's partial sum is
  std::vector<Extent> scratch_;
};

/// How many ranks are in the partial sum at `position` before the exchange over `bit`.
std::uint64_t RecursiveDoubling::contributions_at(Rank position, Rank bit) const {
  std::uint64_t contributions = 0;
  for (Rank p = position % (2 * bit); p < positions_.count; p += 2 * bit)
    contributions += p < positions_.extras ? 2 : 1;
  return contributions;
}

/// Scratch that the partial sum is not in.
Extent RecursiveDoubling::spare() {
  for (const Extent& extent : scratch_)
    if (current_.place != Place::scratch || extent.offset != current_.offset) return extent;
  return scratch_.emplace_back(builder_.scratch(whole_.bytes));
}

void RecursiveDoubling::exchange(Rank bit) {
  const Rank own = positions_.position_of(builder_.rank());
  const Rank partner = own ^ bit;
  const bool last = bit == 1;
  // In place, the very first exchange reads what the last one would write.
  const bool blocked = builder_.shape().in_place && current_.place == Place::input;
  const Extent next = last && !blocked ? whole_ : spare();
  builder_.step();
  builder_.send(positions_.rank_at(partner), {current_});
  builder_.recv_reduce(positions_.rank_at(partner), {next}, {current_},
                       {partner < own, share_of(contributions_at(partner, bit), contributions_at(own, bit))});
  current_ = next;
  if (!last) return;
  if (blocked) builder_.copy(whole_, current_);
  if (builder_.shape().averaging == Averaging::divide) builder_.divide(whole_);
}

void RecursiveDoubling::write() {
  const Rank rank = builder_.rank();
  if (positions_.extra(rank)) {
    builder_.step();
    builder_.send(rank - 1, {current_});
    builder_.step();
    builder_.recv(rank - 1, {whole_});
    return;
  }
  const bool has_extra = rank < 2 * positions_.extras;
  if (has_extra) {
    const Extent next = spare();
    builder_.step();
    builder_.recv_reduce(rank + 1, {next}, {current_}, {false, 0.5F});
    current_ = next;
  }
  for (Rank bit = positions_.count / 2; bit > 0; bit /= 2) exchange(bit);
  if (has_extra) {
    builder_.step();
    builder_.send(rank + 1, {whole_});
  }
}

}  // namespace

void write_one_shot(ScheduleBuilder& builder) {
  const CollectiveKind kind = builder.shape().kind;
  if (kind == CollectiveKind::all_reduce) one_shot_all_reduce(builder);
  if (kind == CollectiveKind::all_gather) one_shot_all_gather(builder);
  if (kind == CollectiveKind::all_to_all) one_shot_all_to_all(builder);
}

void write_recursive_doubling(ScheduleBuilder& builder) { RecursiveDoubling(builder).write(); }

}  // namespace rondel
