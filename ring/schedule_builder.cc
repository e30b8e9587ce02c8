// SPDX-License-Identifier: Apache-2.0
#include "ring/schedule_builder.h"

#include <algorithm>

#include "lib/check.h"

namespace rondel {

void ExtentList::add(Extent extent) {
  if (extent.bytes == 0) return;
  if (!extents_.empty()) {
    Extent& last = extents_.back();
    if (last.place == extent.place && last.offset + last.bytes == extent.offset) {
      last.bytes += extent.bytes;
      return;
    }
  }
  extents_.push_back(extent);
}

std::uint64_t ExtentList::bytes() const {
  std::uint64_t bytes = 0;
  for (const Extent& extent : extents_) bytes += extent.bytes;
  return bytes;
}

namespace {

Rank wrapped(std::int64_t place, std::int64_t size) {
  return static_cast<Rank>((place % size + size) % size);
}

Rank place_of(const Shape& shape, Rank rank) {
  if (shape.order.empty()) return rank;
  return static_cast<Rank>(std::ranges::find(shape.order, rank) - shape.order.begin());
}

}  // namespace

Rank ScheduleBuilder::around(std::int64_t distance) const {
  return wrapped(shape_.rank + distance, shape_.size);
}

Rank ScheduleBuilder::ring_from(Rank start, std::int64_t distance) const {
  const Rank place = wrapped(place_of(shape_, start) + distance, shape_.size);
  return shape_.order.empty() ? place : shape_.order[static_cast<std::size_t>(place)];
}

Rank ScheduleBuilder::ring_distance_from(Rank start) const {
  return wrapped(place_of(shape_, shape_.rank) - place_of(shape_, start), shape_.size);
}

void ScheduleBuilder::step() {
  fence();
  windowed_step(1);
}

void ScheduleBuilder::fence() { fence_ = static_cast<std::uint32_t>(schedule_.steps.size()); }

void ScheduleBuilder::windowed_step(std::uint32_t window) {
  const auto index = static_cast<std::uint32_t>(schedule_.steps.size());
  Step step;
  step.after = std::max(fence_, index + 1 > window ? index + 1 - window : 0);
  step.moves.first = static_cast<std::uint32_t>(schedule_.moves.size());
  step.local.first = static_cast<std::uint32_t>(schedule_.local.size());
  schedule_.steps.push_back(step);
}

Run ScheduleBuilder::store(std::span<const Extent> extents) {
  const Run run{static_cast<std::uint32_t>(schedule_.extents.size()),
                static_cast<std::uint32_t>(extents.size())};
  schedule_.extents.insert(schedule_.extents.end(), extents.begin(), extents.end());
  return run;
}

Move& ScheduleBuilder::add_move(Verb verb, Rank peer, const ExtentList& local) {
  check(local.view().size() <= shape_.max_slices, "a move has at most max_slices slices");
  Move move;
  move.verb = verb;
  move.peer = peer;
  move.local = store(local.view());
  schedule_.moves.push_back(move);
  ++schedule_.steps.back().moves.count;
  return schedule_.moves.back();
}

void ScheduleBuilder::send(Rank peer, const ExtentList& source) {
  if (!source.empty()) add_move(Verb::send, peer, source);
}

void ScheduleBuilder::recv(Rank peer, const ExtentList& destination) {
  if (!destination.empty()) add_move(Verb::recv, peer, destination);
}

void ScheduleBuilder::recv_reduce(Rank peer, const ExtentList& destination, const ExtentList& other,
                                  Fold fold) {
  check(destination.bytes() == other.bytes(), "both operands of a fold have the same length");
  if (destination.empty()) return;
  check(other.view().size() <= shape_.max_slices, "a move has at most max_slices slices");
  Move& move = add_move(Verb::recv_reduce, peer, destination);
  move.other = store(other.view());
  move.incoming_first = fold.incoming_first;
  move.incoming_share = fold.incoming_share;
}

void ScheduleBuilder::send_pair_token(Rank peer, Extent token) {
  add_move(Verb::send, peer, {token}).pair_token = true;
}

void ScheduleBuilder::recv_pair_token(Rank peer, Extent token) {
  add_move(Verb::recv, peer, {token}).pair_token = true;
}

void ScheduleBuilder::copy(Extent destination, Extent source) {
  check(destination.bytes == source.bytes, "a copy has one length");
  if (destination.bytes == 0) return;
  schedule_.local.push_back({LocalWork::Kind::copy, destination, store({&source, 1})});
  ++schedule_.steps.back().local.count;
}

void ScheduleBuilder::fold(Extent destination, Extent first, Extent second) {
  if (destination.bytes == 0) return;
  const Extent sources[] = {first, second};
  schedule_.local.push_back({LocalWork::Kind::fold, destination, store(sources)});
  ++schedule_.steps.back().local.count;
}

void ScheduleBuilder::fold_many(Extent destination, std::span<const Extent> sources) {
  if (destination.bytes == 0) return;
  schedule_.local.push_back({LocalWork::Kind::fold_many, destination, store(sources)});
  ++schedule_.steps.back().local.count;
}

void ScheduleBuilder::divide(Extent destination) {
  if (destination.bytes == 0) return;
  schedule_.local.push_back({LocalWork::Kind::divide, destination, {}});
  ++schedule_.steps.back().local.count;
}

Extent ScheduleBuilder::scratch(std::uint64_t bytes) {
  const Extent extent{Place::scratch, schedule_.scratch_bytes, bytes};
  schedule_.scratch_bytes += aligned(bytes);
  return extent;
}

void ScheduleBuilder::agree() {
  // Ascending skips: after the rounds 1 .. s, a rank has heard from everybody less than the next skip behind
  // it.
  const std::vector<Rank> skips = circulant_skips(size());
  const Extent sent = scratch(kTokenBytes);
  const Extent received = scratch(kTokenBytes * skips.size());
  std::uint64_t offset = 0;
  for (auto skip = skips.rbegin(); skip != skips.rend(); ++skip, offset += kTokenBytes) {
    step();
    send(around(*skip), {sent});
    recv(around(-*skip), {part(received, offset, kTokenBytes)});
  }
  fence();
  schedule_.agrees_first = true;
}

Schedule ScheduleBuilder::finish() {
  for (std::uint32_t k = 0; k < schedule_.steps.size(); ++k) {
    const Step& step = schedule_.steps[k];
    schedule_.steps_in_flight = std::max(schedule_.steps_in_flight, k + 1 - step.after);
    schedule_.moves_per_step = std::max(schedule_.moves_per_step, step.moves.count);
  }
  for (const Move& move : schedule_.moves) schedule_.peers.push_back(move.peer);
  std::ranges::sort(schedule_.peers);
  schedule_.peers.erase(std::unique(schedule_.peers.begin(), schedule_.peers.end()), schedule_.peers.end());
  return std::move(schedule_);
}

std::vector<Range> blocks_of_counts(const Shape& shape) {
  std::vector<Range> blocks(static_cast<std::size_t>(shape.size));
  std::uint64_t begin = 0;
  for (std::size_t i = 0; i < blocks.size(); ++i) {
    blocks[i] = {begin, shape.counts.empty() ? shape.count : shape.counts[i]};
    begin = blocks[i].end();
  }
  return blocks;
}

std::vector<Range> blocks_of_total(const Shape& shape) {
  std::vector<Range> blocks(static_cast<std::size_t>(shape.size));
  for (std::size_t i = 0; i < blocks.size(); ++i) blocks[i] = part_of(shape.count, blocks.size(), i);
  return blocks;
}

std::uint64_t largest_count(std::span<const Range> blocks) {
  std::uint64_t largest = 0;
  for (const Range& block : blocks) largest = std::max(largest, block.count);
  return largest;
}

bool any_empty(std::span<const Range> blocks) {
  return std::ranges::any_of(blocks, [](const Range& block) { return block.count == 0; });
}

float share_of(std::uint64_t incoming, std::uint64_t own) {
  // 1 - x is exact for x in [1/2, 1], so the side that holds the smaller share takes the complement of the
  // larger.
  const auto total = static_cast<float>(incoming + own);
  if (incoming >= own) return static_cast<float>(incoming) / total;
  return 1.0F - static_cast<float>(own) / total;
}

}  // namespace rondel
