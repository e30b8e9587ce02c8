// SPDX-License-Identifier: Apache-2.0
// Collectives with a root. Ranks are numbered from the root (its place is 0). Tree: binomial, place v's
// parent is v without its lowest set bit, and the subtree under v is the places v .. v + lowest bit - 1.
// Chain: place after place, segment by segment. Linear: the root and each rank directly. All start with an
// agreement, because data flows one way.
#include <algorithm>

#include "ring/schedule_builder.h"

namespace rondel {
namespace {

constexpr std::uint32_t kLinearWindow = 8;

class Rooted {
 public:
  explicit Rooted(ScheduleBuilder& builder)
      : builder_(builder), shape_(builder.shape()), place_(place_of_this_rank()) {
    for (span_ = 1; span_ < builder.size() && (place_ & span_) == 0; span_ *= 2) {
    }
  }

  void tree_broadcast();
  void tree_reduce();
  void tree_gather();
  void tree_scatter();
  void chain_broadcast();
  void chain_reduce();
  void linear_gather();
  void linear_scatter();

 private:
  bool root() const { return place_ == 0; }
  // Gather and scatter need blocks that touch, so they go by number.
  bool by_order() const {
    return shape_.kind == CollectiveKind::broadcast || shape_.kind == CollectiveKind::reduce;
  }
  Rank place_of_this_rank() const {
    return by_order() ? builder_.ring_distance_from(shape_.root) : builder_.around(-shape_.root);
  }
  Rank rank_at(Rank place) const {
    return by_order() ? builder_.ring_from(shape_.root, place)
                      : static_cast<Rank>((place + shape_.root) % builder_.size());
  }
  Rank parent() const { return rank_at(place_ - span_); }
  Extent whole(Place place) const { return extent_of(shape_, place, {0, shape_.count}); }
  void copy_own(Extent destination, Extent source) {
    if (!shape_.in_place) builder_.copy(destination, source);
  }

  /// The extents of the places first .. last-1 in `place`: by rank in the root's buffers, by place in
  /// scratch.
  std::vector<ExtentList> subtree(Place place, Rank first, Rank last) const;
  std::uint64_t subtree_bytes(Rank first, Rank last) const;
  Rank subtree_end(Rank place, Rank span) const { return std::min(place + span, builder_.size()); }
  Extent block(Place place, Rank rank) const {
    return extent_of(shape_, place, blocks_[static_cast<std::size_t>(rank)]);
  }
  Extent own_block(Place place) const { return {place, 0, block(place, builder_.rank()).bytes}; }
  void choose_segments();
  Extent segment(Place place, std::uint64_t index) const {
    return extent_of(shape_, place, part_of(shape_.count, segments_, index));
  }

  ScheduleBuilder& builder_;
  const Shape& shape_;
  const Rank place_;
  Rank span_ = 1;  // places in the subtree, before clipping: the lowest set bit of place_
  std::vector<Range> blocks_ = blocks_of_counts(shape_);
  Extent held_;  // scratch of a gather or scatter: the subtree's blocks in order of place
  std::uint64_t segments_ = 1;
  std::uint32_t window_ = 1;
};

void Rooted::tree_broadcast() {
  builder_.agree();
  if (!root()) {
    builder_.step();
    builder_.recv(parent(), {whole(Place::output)});
  }
  builder_.step();
  for (Rank bit = span_ / 2; bit > 0; bit /= 2)
    if (place_ + bit < builder_.size())
      builder_.send(rank_at(place_ + bit), {whole(root() ? Place::input : Place::output)});
  if (root()) copy_own(whole(Place::output), whole(Place::input));
}

void Rooted::tree_reduce() {
  builder_.agree();
  Extent sum = whole(Place::input);
  std::uint64_t contributions = 1;
  for (Rank bit = 1; bit < span_; bit *= 2) {
    if (place_ + bit >= builder_.size()) break;
    const auto incoming = static_cast<std::uint64_t>(subtree_end(place_ + bit, bit) - place_ - bit);
    const Extent operand = sum;
    if (sum.place == Place::input) sum = root() ? whole(Place::output) : builder_.scratch(operand.bytes);
    builder_.step();
    builder_.recv_reduce(rank_at(place_ + bit), {sum}, {operand}, {false, share_of(incoming, contributions)});
    contributions += incoming;
  }
  if (root() && shape_.averaging == Averaging::divide) builder_.divide(sum);
  if (root()) return;
  builder_.step();
  builder_.send(parent(), {sum});
}

std::uint64_t Rooted::subtree_bytes(Rank first, Rank last) const {
  std::uint64_t bytes = 0;
  for (Rank v = first; v < last; ++v) bytes += block(Place::scratch, rank_at(v)).bytes;
  return bytes;
}

std::vector<ExtentList> Rooted::subtree(Place place, Rank first, Rank last) const {
  std::vector<ExtentList> works(1);
  std::uint64_t offset = place == Place::scratch ? held_.offset + subtree_bytes(place_, first) : 0;
  for (Rank v = first; v < last; ++v) {
    // Where the root's buffer jumps back to rank 0, an endpoint with single slices needs two works, on both
    // sides.
    if (rank_at(v) == 0 && shape_.max_slices < 2 && !works.back().empty()) works.emplace_back();
    Extent extent = block(place, rank_at(v));
    if (place == Place::scratch) extent.offset = offset;
    offset += extent.bytes;
    works.back().add(extent);
  }
  return works;
}

void Rooted::tree_gather() {
  builder_.agree();
  const Rank end = subtree_end(place_, span_);
  const bool leaf = end == place_ + 1;
  Place held = Place::output;
  if (!root() && !leaf) {
    held = Place::scratch;
    held_ = builder_.scratch(subtree_bytes(place_, end));
  }
  builder_.step();
  if (held == Place::scratch) builder_.copy(part(held_, 0, own_block(held).bytes), own_block(Place::input));
  if (root()) copy_own(block(Place::output, builder_.rank()), own_block(Place::input));
  for (Rank bit = 1; bit < span_ && place_ + bit < builder_.size(); bit *= 2)
    for (const ExtentList& work : subtree(held, place_ + bit, subtree_end(place_ + bit, bit)))
      builder_.recv(rank_at(place_ + bit), work);
  if (root()) return;
  builder_.step();
  if (leaf)
    builder_.send(parent(), {own_block(Place::input)});
  else
    for (const ExtentList& work : subtree(held, place_, end)) builder_.send(parent(), work);
}

void Rooted::tree_scatter() {
  builder_.agree();
  const Rank end = subtree_end(place_, span_);
  const bool leaf = end == place_ + 1;
  if (!root()) {
    builder_.step();
    if (leaf) {
      builder_.recv(parent(), {own_block(Place::output)});
      return;
    }
    held_ = builder_.scratch(subtree_bytes(place_, end));
    for (const ExtentList& work : subtree(Place::scratch, place_, end)) builder_.recv(parent(), work);
  }
  const Place held = root() ? Place::input : Place::scratch;
  builder_.step();
  for (Rank bit = span_ / 2; bit > 0; bit /= 2)
    if (place_ + bit < builder_.size())
      for (const ExtentList& work : subtree(held, place_ + bit, subtree_end(place_ + bit, bit)))
        builder_.send(rank_at(place_ + bit), work);
  if (root())
    copy_own(own_block(Place::output), block(Place::input, builder_.rank()));
  else
    builder_.copy(own_block(Place::output), part(held_, 0, own_block(held).bytes));
}

void Rooted::choose_segments() {
  const std::uint64_t limit = std::max<std::uint64_t>(1, shape_.segment_bytes / shape_.element_bytes);
  segments_ = pieces_for(shape_.count, limit);
  const std::uint64_t window = std::min<std::uint64_t>({shape_.window, shape_.max_in_flight, 2});
  window_ = static_cast<std::uint32_t>(std::max<std::uint64_t>(1, window));
}

/// Step k receives segment k and passes on segment k - window, which has retired by then.
void Rooted::chain_broadcast() {
  builder_.agree();
  choose_segments();
  const bool last = place_ + 1 == builder_.size();
  const Place source = root() ? Place::input : Place::output;
  const std::uint64_t lag = root() ? 0 : window_;
  for (std::uint64_t k = 0; k < segments_ + (last ? 0 : lag); ++k) {
    builder_.windowed_step(window_);
    if (!root() && k < segments_) builder_.recv(rank_at(place_ - 1), {segment(Place::output, k)});
    if (!last && k >= lag) builder_.send(rank_at(place_ + 1), {segment(source, k - lag)});
    if (root()) copy_own(segment(Place::output, k), segment(Place::input, k));
  }
}

/// The same the other way round; partial sums wait in 2 * window slots of scratch.
void Rooted::chain_reduce() {
  builder_.agree();
  choose_segments();
  const bool first = place_ + 1 == builder_.size();
  const std::uint64_t lag = first ? 0 : window_;
  const std::uint64_t room = aligned(pieces_for(shape_.count, segments_) * shape_.element_bytes);
  const std::uint64_t slots = 2 * std::uint64_t{window_};
  const Extent partials = first || root() ? Extent{} : builder_.scratch(slots * room);
  const Fold fold{false, share_of(static_cast<std::uint64_t>(builder_.size() - place_ - 1), 1)};
  const auto sum = [&](std::uint64_t k) {
    if (first) return segment(Place::input, k);
    if (root()) return segment(Place::output, k);
    return part(partials, k % slots * room, segment(Place::input, k).bytes);
  };
  for (std::uint64_t k = 0; k < segments_ + (root() ? 0 : lag); ++k) {
    builder_.windowed_step(window_);
    if (!first && k < segments_)
      builder_.recv_reduce(rank_at(place_ + 1), {sum(k)}, {segment(Place::input, k)}, fold);
    if (!root() && k >= lag) builder_.send(rank_at(place_ - 1), {sum(k - lag)});
    if (root() && shape_.averaging == Averaging::divide) builder_.divide(sum(k));
  }
}

void Rooted::linear_gather() {
  builder_.agree();
  if (!root()) {
    builder_.step();
    builder_.send(shape_.root, {own_block(Place::input)});
    return;
  }
  for (Rank v = 1; v < builder_.size(); ++v) {
    builder_.windowed_step(kLinearWindow);
    builder_.recv(rank_at(v), {block(Place::output, rank_at(v))});
    if (v == 1) copy_own(block(Place::output, shape_.root), own_block(Place::input));
  }
}

void Rooted::linear_scatter() {
  builder_.agree();
  if (!root()) {
    builder_.step();
    builder_.recv(shape_.root, {own_block(Place::output)});
    return;
  }
  for (Rank v = 1; v < builder_.size(); ++v) {
    builder_.windowed_step(kLinearWindow);
    builder_.send(rank_at(v), {block(Place::input, rank_at(v))});
    if (v == 1) copy_own(own_block(Place::output), block(Place::input, shape_.root));
  }
}

}  // namespace

void write_tree(ScheduleBuilder& builder) {
  Rooted rooted(builder);
  switch (builder.shape().kind) {
    case CollectiveKind::broadcast:
      return rooted.tree_broadcast();
    case CollectiveKind::reduce:
      return rooted.tree_reduce();
    case CollectiveKind::gather:
      return rooted.tree_gather();
    case CollectiveKind::scatter:
      return rooted.tree_scatter();
    default:
      return;
  }
}

void write_chain(ScheduleBuilder& builder) {
  if (builder.shape().kind == CollectiveKind::broadcast) Rooted(builder).chain_broadcast();
  if (builder.shape().kind == CollectiveKind::reduce) Rooted(builder).chain_reduce();
}

void write_rooted_linear(ScheduleBuilder& builder) {
  if (builder.shape().kind == CollectiveKind::gather) Rooted(builder).linear_gather();
  if (builder.shape().kind == CollectiveKind::scatter) Rooted(builder).linear_scatter();
}

}  // namespace rondel
