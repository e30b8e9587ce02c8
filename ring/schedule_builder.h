// SPDX-License-Identifier: Apache-2.0
// ScheduleBuilder: the pen with which the schedule_*.cc files write a Schedule: drops what is empty, joins
// extents that touch, hands out scratch. One schedule each; private to ring.
#pragma once

#include <cstdint>
#include <initializer_list>
#include <span>
#include <vector>

#include "lib/partition.h"
#include "ring/schedule.h"

namespace rondel {

inline constexpr std::uint64_t kTokenBytes = 8;
inline constexpr std::uint64_t kScratchAlignment = 64;
/// Up to here a circulant all-reduce keeps its partial sums in scratch, which saves the agreement; beyond,
/// memory traffic costs more than a few small messages.
inline constexpr std::uint64_t kPartialsInScratchBytes = 1024 * 1024;

/// A list of extents under construction; neighbours that touch become one.
class ExtentList {
 public:
  ExtentList() = default;
  ExtentList(std::initializer_list<Extent> extents) {
    for (const Extent& extent : extents) add(extent);
  }
  void add(Extent extent);
  std::uint64_t bytes() const;
  bool empty() const { return extents_.empty(); }
  std::span<const Extent> view() const { return extents_; }

 private:
  std::vector<Extent> extents_;
};

/// How a recv_reduce combines what comes in with what is there.
struct Fold {
  bool incoming_first = false;
  float incoming_share = 0.5F;
};

class ScheduleBuilder {
 public:
  explicit ScheduleBuilder(const Shape& shape) : shape_(shape) {}

  const Shape& shape() const { return shape_; }
  Rank rank() const { return shape_.rank; }
  Rank size() const { return shape_.size; }
  /// The rank `distance` further round the circle of ranks by number (negative: back).
  Rank around(std::int64_t distance) const;
  /// The same in shape().order.
  Rank around_ring(std::int64_t distance) const { return ring_from(shape_.rank, distance); }
  Rank ring_from(Rank start, std::int64_t distance) const;
  /// How far this rank is behind `start` in shape().order.
  Rank ring_distance_from(Rank start) const;

  /// Starts a step that is posted when all earlier steps have retired.
  void step();
  /// Starts a step that is posted when at most `window` - 1 steps since the last fence() are in flight.
  void windowed_step(std::uint32_t window);
  /// Later windowed steps wait for everything up to here.
  void fence();

  void send(Rank peer, const ExtentList& source);
  void recv(Rank peer, const ExtentList& destination);
  void recv_reduce(Rank peer, const ExtentList& destination, const ExtentList& other, Fold fold);
  void send_pair_token(Rank peer, Extent token);
  void recv_pair_token(Rank peer, Extent token);

  void copy(Extent destination, Extent source);
  void fold(Extent destination, Extent first, Extent second);
  void fold_many(Extent destination, std::span<const Extent> sources);
  void divide(Extent destination);

  /// `bytes` of scratch that nothing else in this schedule uses.
  Extent scratch(std::uint64_t bytes);
  /// Tokens round the circulant skips; see make_agreement.
  void agree();

  Schedule finish();

 private:
  Run store(std::span<const Extent> extents);
  Move& add_move(Verb verb, Rank peer, const ExtentList& local);

  const Shape& shape_;
  Schedule schedule_;
  std::uint32_t fence_ = 0;
};

/// The blocks that each rank owns or contributes, in elements, in rank order and without gaps: shape.counts
/// where given, else `count` each.
std::vector<Range> blocks_of_counts(const Shape& shape);
/// `shape.count` elements cut into one block per rank.
std::vector<Range> blocks_of_total(const Shape& shape);
std::uint64_t largest_count(std::span<const Range> blocks);
bool any_empty(std::span<const Range> blocks);

inline Extent extent_of(const Shape& shape, Place place, Range elements) {
  return {place, elements.begin * shape.element_bytes, elements.count * shape.element_bytes};
}
/// Part of an extent.
inline Extent part(Extent whole, std::uint64_t offset, std::uint64_t bytes) {
  return {whole.place, whole.offset + offset, bytes};
}
inline std::uint64_t aligned(std::uint64_t bytes) {
  return (bytes + kScratchAlignment - 1) / kScratchAlignment * kScratchAlignment;
}

/// The share of `incoming` contributions among incoming + own; exact complements on the two sides of an
/// exchange.
float share_of(std::uint64_t incoming, std::uint64_t own);

/// Whether some ranks share a host and some do not, and its works fit the limits.
bool hierarchical_fits(const Shape& shape);

// One writer per algorithm family; each writes the whole schedule for the kinds it knows.
void write_ring(ScheduleBuilder& builder);
void write_circulant(ScheduleBuilder& builder);
void write_one_shot(ScheduleBuilder& builder);
void write_recursive_doubling(ScheduleBuilder& builder);
void write_tree(ScheduleBuilder& builder);
void write_chain(ScheduleBuilder& builder);
void write_rooted_linear(ScheduleBuilder& builder);
void write_all_to_all(ScheduleBuilder& builder);
void write_barrier(ScheduleBuilder& builder);
void write_hierarchical(ScheduleBuilder& builder);
void write_alone(ScheduleBuilder& builder);

}  // namespace rondel
