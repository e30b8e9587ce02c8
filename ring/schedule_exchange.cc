// SPDX-License-Identifier: Apache-2.0
// Schedules without folds between pairs: all-to-all, barrier, and the copies of a single rank.
#include <algorithm>

#include "ring/schedule_builder.h"

namespace rondel {
namespace {

constexpr std::uint32_t kPairsInFlight = 4;

std::vector<Range> blocks_of(std::span<const std::uint64_t> counts, const Shape& shape) {
  std::vector<Range> blocks(static_cast<std::size_t>(shape.size));
  std::uint64_t begin = 0;
  for (std::size_t i = 0; i < blocks.size(); ++i) {
    blocks[i] = {begin, counts.empty() ? shape.count : counts[i]};
    begin = blocks[i].end();
  }
  return blocks;
}

/// Every pair exchanges tokens labelled with what it is going to send: each rank hears from everybody, and
/// the counts of both sides are compared before data moves.
void pair_tokens(ScheduleBuilder& builder) {
  const Extent sent = builder.scratch(kTokenBytes);
  const Extent received = builder.scratch(kTokenBytes * static_cast<std::uint64_t>(builder.size()));
  builder.step();
  for (Rank distance = 1; distance < builder.size(); ++distance) {
    builder.send_pair_token(builder.around(distance), sent);
    const std::uint64_t offset = kTokenBytes * static_cast<std::uint64_t>(distance);
    builder.recv_pair_token(builder.around(-distance), part(received, offset, kTokenBytes));
  }
  builder.fence();
}

}  // namespace

void write_all_to_all(ScheduleBuilder& builder) {
  const Shape& shape = builder.shape();
  const bool counted = !shape.counts.empty();
  const std::vector<Range> sent = blocks_of(shape.counts, shape);
  const std::vector<Range> received = blocks_of(shape.receive_counts, shape);
  if (counted)
    pair_tokens(builder);
  else if (builder.size() > 2)
    builder.agree();
  for (Rank distance = 1; distance < builder.size(); ++distance) {
    const Rank target = builder.around(distance);
    const Rank source = builder.around(-distance);
    builder.windowed_step(std::min(kPairsInFlight, shape.max_in_flight));
    builder.send(target, {extent_of(shape, Place::input, sent[static_cast<std::size_t>(target)])});
    builder.recv(source, {extent_of(shape, Place::output, received[static_cast<std::size_t>(source)])});
    if (distance > 1) continue;
    const auto own = static_cast<std::size_t>(builder.rank());
    builder.copy(extent_of(shape, Place::output, received[own]), extent_of(shape, Place::input, sent[own]));
  }
}

void write_barrier(ScheduleBuilder& builder) { builder.agree(); }

void write_alone(ScheduleBuilder& builder) {
  const Shape& shape = builder.shape();
  if (shape.kind == CollectiveKind::barrier || shape.in_place) return;
  const std::uint64_t count = shape.counts.empty() ? shape.count : shape.counts[0];
  builder.step();
  builder.copy(extent_of(shape, Place::output, {0, count}), extent_of(shape, Place::input, {0, count}));
}

}  // namespace rondel
