// SPDX-License-Identifier: Apache-2.0
// The ring. Ranks are meant by their place in shape.order here, r+1 being the next. Each rank's share of the
// vector is a chunk; a chunk is cut into S segments. Scatter-reduce: in hop h rank r sends chunk r-h-1 to
// next and folds its own part of chunk r-h-2 with what comes from prev, so that chunk r is complete at rank r
// after size-1 hops. All-gather: in hop h rank r sends chunk r-h and receives chunk r-h-1.
//
// Step h*S + s moves segment s in hop h. What it sends was made in step (h-1)*S + s, so a window of D <= S
// steps is the whole of the dependency logic.
//
// A large vector is reduced in passes of a window's segments, each scattered and gathered before the next, so
// that what was just folded is still in the cache when it is sent on.
#include <algorithm>

#include "lib/check.h"
#include "ring/schedule_builder.h"

namespace rondel {
namespace {

class Ring {
 public:
  Ring(ScheduleBuilder& builder, std::vector<Range> chunks) : builder_(builder), chunks_(std::move(chunks)) {}

  void all_reduce();
  void reduce_scatter();
  void all_gather();

 private:
  Rank hops() const { return builder_.size() - 1; }
  Rank next() const { return builder_.around_ring(1); }
  Rank prev() const { return builder_.around_ring(-1); }
  const Range& chunk(std::int64_t distance) const {
    return chunks_[static_cast<std::size_t>(builder_.around_ring(distance))];
  }
  Extent at(Place place, Range elements) const { return extent_of(builder_.shape(), place, elements); }

  void choose_segments(std::uint64_t chunk_elements);
  /// Segment `segment` of pass `pass` of the chunk `distance` ranks ahead.
  Range segment_of(std::int64_t distance, std::uint64_t pass, std::uint64_t segment) const;
  void reduce_pass(std::uint64_t pass);
  /// Where the partial sums that arrive in `hop` are kept.
  Extent partial(Rank hop, Range segment_elements, std::uint64_t segment) const;
  Extent result(Range segment_elements) const;
  void gather_pass(bool from_input, std::uint64_t pass);

  ScheduleBuilder& builder_;
  const std::vector<Range> chunks_;
  std::uint64_t passes_ = 1;
  std::uint64_t segments_ = 1;
  std::uint32_t window_ = 1;
  std::uint64_t segment_room_ = 0;
  Extent partials_;  // two hops' worth of segments
  bool partials_in_output_ = false;
  bool whole_output_ = false;  // output holds the whole vector, not one chunk
};

void Ring::choose_segments(std::uint64_t chunk_elements) {
  const Shape& shape = builder_.shape();
  const std::uint64_t limit = std::max<std::uint64_t>(1, shape.segment_bytes / shape.element_bytes);
  segments_ = pieces_for(chunk_elements, limit);
  const std::uint64_t window =
      std::min({std::uint64_t{shape.window}, segments_, std::uint64_t{shape.max_in_flight}});
  window_ = static_cast<std::uint32_t>(std::max<std::uint64_t>(1, window));
  check(window_ <= segments_, "the window is at most the segments of a chunk");
  segment_room_ = aligned(pieces_for(chunk_elements, segments_) * shape.element_bytes);
}

Range Ring::segment_of(std::int64_t distance, std::uint64_t pass, std::uint64_t segment) const {
  const Range& whole = chunk(distance);
  const Range in_pass = part_of(whole.count, passes_, pass);
  const Range in_segment = part_of(in_pass.count, segments_, segment);
  return {whole.begin + in_pass.begin + in_segment.begin, in_segment.count};
}

Extent Ring::partial(Rank hop, Range segment_elements, std::uint64_t segment) const {
  if (partials_in_output_) return at(Place::output, segment_elements);
  const auto slot = static_cast<std::uint64_t>(hop % 2) * segments_ + segment;
  return part(partials_, slot * segment_room_, segment_elements.count * builder_.shape().element_bytes);
}

Extent Ring::result(Range segment_elements) const {
  if (!whole_output_) segment_elements.begin -= chunk(0).begin;
  return at(Place::output, segment_elements);
}

void Ring::reduce_pass(std::uint64_t pass) {
  const bool pair = builder_.size() == 2;  // two ranks: the lower one's operand first, as all algorithms do
  for (Rank hop = 0; hop < hops(); ++hop) {
    const auto contributions = static_cast<std::uint64_t>(hop) + 1;
    const Fold fold{pair && prev() < builder_.rank(), share_of(contributions, 1)};
    for (std::uint64_t s = 0; s < segments_; ++s) {
      builder_.windowed_step(window_);
      const Range leaving = segment_of(-hop - 1, pass, s);
      const Range arriving = segment_of(-hop - 2, pass, s);
      builder_.send(next(), {hop == 0 ? at(Place::input, leaving) : partial(hop - 1, leaving, s)});
      const bool last = hop + 1 == hops();
      const Extent destination = last ? result(arriving) : partial(hop, arriving, s);
      builder_.recv_reduce(prev(), {destination}, {at(Place::input, arriving)}, fold);
      if (last && builder_.shape().averaging == Averaging::divide) builder_.divide(destination);
    }
  }
}

void Ring::gather_pass(bool from_input, std::uint64_t pass) {
  const bool own_copy = from_input && !builder_.shape().in_place;
  const auto own_input = [this](Range elements) {
    return at(Place::input, {elements.begin - chunk(0).begin, elements.count});
  };
  for (Rank hop = 0; hop < hops(); ++hop) {
    for (std::uint64_t s = 0; s < segments_; ++s) {
      builder_.windowed_step(window_);
      const Range leaving = segment_of(-hop, pass, s);
      builder_.send(next(), {hop == 0 && from_input ? own_input(leaving) : at(Place::output, leaving)});
      builder_.recv(prev(), {at(Place::output, segment_of(-hop - 1, pass, s))});
      if (hop == 0 && own_copy) builder_.copy(at(Place::output, leaving), own_input(leaving));
    }
  }
}

void Ring::all_reduce() {
  whole_output_ = true;
  const Shape& shape = builder_.shape();
  const std::uint64_t chunk_elements = largest_count(chunks_);
  const std::uint64_t limit = std::max<std::uint64_t>(1, shape.segment_bytes / shape.element_bytes);
  passes_ = pieces_for(pieces_for(chunk_elements, limit), std::max<std::uint32_t>(1, shape.window));
  choose_segments(pieces_for(chunk_elements, passes_));
  const std::uint64_t room = 2 * segments_ * segment_room_;
  if (hops() > 1) {
    partials_in_output_ = room > shape.scratch_limit_bytes;
    if (partials_in_output_)
      builder_.agree();
    else
      partials_ = builder_.scratch(room);
  }
  for (std::uint64_t pass = 0; pass < passes_; ++pass) {
    reduce_pass(pass);
    gather_pass(false, pass);
  }
}

void Ring::reduce_scatter() {
  if (any_empty(chunks_)) builder_.agree();  // an empty chunk's owner hears from nobody
  const Shape& shape = builder_.shape();
  const std::uint64_t chunk_elements = largest_count(chunks_);
  if (hops() > 1) {
    const std::uint64_t limit =
        std::max<std::uint64_t>(1, shape.scratch_limit_bytes / 2 / shape.element_bytes);
    passes_ = pieces_for(chunk_elements, limit);
  }
  choose_segments(pieces_for(chunk_elements, passes_));
  if (hops() > 1) partials_ = builder_.scratch(2 * segments_ * segment_room_);
  for (std::uint64_t pass = 0; pass < passes_; ++pass) reduce_pass(pass);
}

void Ring::all_gather() {
  if (hops() > 1 || any_empty(chunks_)) builder_.agree();
  choose_segments(largest_count(chunks_));
  gather_pass(true, 0);
}

}  // namespace

void write_ring(ScheduleBuilder& builder) {
  const Shape& shape = builder.shape();
  if (shape.kind == CollectiveKind::all_reduce) Ring(builder, blocks_of_total(shape)).all_reduce();
  if (shape.kind == CollectiveKind::reduce_scatter) Ring(builder, blocks_of_counts(shape)).reduce_scatter();
  if (shape.kind == CollectiveKind::all_gather) Ring(builder, blocks_of_counts(shape)).all_gather();
}

}  // namespace rondel
