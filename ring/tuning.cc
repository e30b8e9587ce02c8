// SPDX-License-Identifier: Apache-2.0
#include "ring/tuning.h"

#include <fmt/format.h>

#include <algorithm>
#include <bit>
#include <limits>

#include "lib/partition.h"

namespace rondel {
namespace {

constexpr std::uint32_t kWindow = 4;
constexpr std::uint64_t kMostSegments = 65536;  // of one operation
constexpr std::uint64_t kShortChunkSegments =
    4;                              // a chunk of up to so many segments is cut into half as many
constexpr Rank kOneShotRanks = 16;  // more would need too many connections

// The fixed borders between orders of folding; see tuning.h.
constexpr std::uint64_t kOneShotHalfBytes = 16 * 1024;    // 16-bit floats, received by each rank
constexpr std::uint64_t kLeftOverRanksBytes = 32 * 1024;  // recursive doubling for any number of ranks
constexpr std::uint64_t kTreeReduceBytes = 64 * 1024;

/// The chunk from which the ring folds in its own order: few ranks sooner, because its hops grow with them.
constexpr std::uint64_t ring_chunk_bytes(Rank size) {
  if (size <= 4) return 64 * 1024;
  return size <= 8 ? 256 * 1024 : 4 * 1024 * 1024;
}

constexpr Algorithm kAnyAlgorithm[] = {Algorithm::ring,     Algorithm::circulant,
                                       Algorithm::one_shot, Algorithm::recursive_doubling,
                                       Algorithm::tree,     Algorithm::linear};

std::uint64_t total_bytes_of(const Shape& shape) {
  std::uint64_t elements = shape.count * static_cast<std::uint64_t>(shape.size);
  if (!shape.counts.empty()) {
    elements = 0;
    for (const std::uint64_t count : shape.counts) elements += count;
  }
  return elements * shape.element_bytes;
}

/// The bytes by which a collective's time is judged: the vector for those that reduce or copy one, the
/// concatenation for those that gather or scatter.
std::uint64_t vector_bytes(const Shape& shape) {
  using Kind = CollectiveKind;
  if (shape.kind == Kind::all_reduce || shape.kind == Kind::broadcast || shape.kind == Kind::reduce)
    return shape.count * shape.element_bytes;
  return total_bytes_of(shape);
}

std::uint32_t rounds_for(Rank size) {
  return static_cast<std::uint32_t>(std::bit_width(static_cast<std::uint32_t>(size - 1)));
}

bool power_of_two(Rank size) { return std::has_single_bit(static_cast<std::uint32_t>(size)); }

}  // namespace

Result<std::optional<Algorithm>> parse_algorithm(std::string_view text) {
  if (text.empty()) return std::optional<Algorithm>();
  for (const Algorithm algorithm : {Algorithm::ring, Algorithm::circulant, Algorithm::one_shot,
                                    Algorithm::recursive_doubling, Algorithm::hierarchical})
    if (name_of(algorithm) == text) return std::optional(algorithm);
  return Status(
      Code::invalid_argument, fmt::format("there is no algorithm \"{}\"", text),
      "RONDEL_ALGORITHM is ring, circulant, one_shot, recursive_doubling or hierarchical, or not set");
}

Tuning::Tuning(Cost cost, Limits limits, std::optional<Algorithm> wanted, std::uint64_t segment_bytes)
    : cost_(cost), limits_(limits), wanted_(wanted), segment_bytes_(segment_bytes) {}

void Tuning::choose(Shape& shape, DataType type, ReduceOp op) const {
  shape.max_in_flight = limits_.max_in_flight;
  shape.max_slices = limits_.max_slices;
  shape.window = std::min(kWindow, limits_.max_in_flight);
  shape.segment_bytes = segment_bytes_ > 0 ? segment_bytes_ : limits_.preferred_segment_bytes;
  // The schedule of a wild count must not fill the memory before the count is found to be wrong.
  shape.segment_bytes = std::max(shape.segment_bytes, total_bytes_of(shape) / kMostSegments / 4096 * 4096);
  const bool ordered_op = op == ReduceOp::sum || op == ReduceOp::average || op == ReduceOp::product;
  const bool order_matters = reduces(shape.kind) && is_floating(type) && ordered_op && shape.size > 2;
  shape.fold_pairwise = order_matters && !is_half(type);
  shape.algorithm = choose_algorithm(shape, order_matters);
  if (segment_bytes_ > 0 || shape.algorithm != Algorithm::ring) return;
  const std::uint64_t chunk_bytes = vector_bytes(shape) / static_cast<std::uint64_t>(shape.size);
  if (chunk_bytes <= kShortChunkSegments * shape.segment_bytes) shape.segment_bytes *= 2;
}

Algorithm Tuning::choose_algorithm(Shape& shape, bool order_matters) const {
  if (wanted_) {
    shape.algorithm = *wanted_;
    if (can_run(shape)) return *wanted_;
  }
  // Of large vectors the least that can cross between hosts; a question of ranks and bytes alone.
  shape.algorithm = Algorithm::hierarchical;
  if (vector_bytes(shape) / static_cast<std::uint64_t>(shape.size) >= ring_chunk_bytes(shape.size) &&
      can_run(shape))
    return Algorithm::hierarchical;
  if (!order_matters) return cheapest(shape, kAnyAlgorithm);
  return cheapest(shape, of_one_order(shape));
}

/// Algorithms that fold in the order that ranks and bytes (and 16-bit floats, whose one-shot folds round
/// once) call for.
std::span<const Algorithm> Tuning::of_one_order(const Shape& shape) const {
  static constexpr Algorithm kRing[] = {Algorithm::ring}, kTree[] = {Algorithm::tree},
                             kCirculant[] = {Algorithm::circulant}, kOneShot[] = {Algorithm::one_shot},
                             kDoubling[] = {Algorithm::recursive_doubling},
                             kDoublingOrder[] = {Algorithm::recursive_doubling, Algorithm::one_shot},
                             kHalvesOfPowerOfTwo[] = {Algorithm::recursive_doubling, Algorithm::circulant},
                             kPowerOfTwo[] = {Algorithm::recursive_doubling, Algorithm::circulant,
                                              Algorithm::one_shot};
  const std::uint64_t bytes = vector_bytes(shape);
  const auto ranks = static_cast<std::uint64_t>(shape.size);
  if (shape.kind == CollectiveKind::reduce && bytes <= kTreeReduceBytes) return kTree;
  if (shape.kind == CollectiveKind::reduce) return kRing;
  if (bytes / ranks >= ring_chunk_bytes(shape.size)) return kRing;
  if (shape.kind == CollectiveKind::reduce_scatter) return kCirculant;
  const bool one_rounding = !shape.fold_pairwise && shape.size <= kOneShotRanks;
  if (one_rounding && bytes * (ranks - 1) <= kOneShotHalfBytes) return kOneShot;
  if (power_of_two(shape.size)) {
    if (shape.fold_pairwise) return kPowerOfTwo;
    return kHalvesOfPowerOfTwo;
  }
  if (bytes > kLeftOverRanksBytes) return kCirculant;
  if (shape.fold_pairwise) return kDoublingOrder;
  return kDoubling;
}

/// Of those that can run; the ring, which always can where ranks reduce, when none of them can.
Algorithm Tuning::cheapest(Shape& shape, std::span<const Algorithm> candidates) const {
  std::optional<Algorithm> best;
  double best_seconds = std::numeric_limits<double>::max();
  for (const Algorithm candidate : candidates) {
    shape.algorithm = candidate;
    if (!can_run(shape) || (candidate == Algorithm::one_shot && shape.size > kOneShotRanks)) continue;
    const double estimate = seconds(shape);
    if (best && estimate >= best_seconds) continue;
    best = candidate;
    best_seconds = estimate;
  }
  return best.value_or(Algorithm::ring);
}

double Tuning::seconds(const Shape& shape) const {
  const double hop = cost_.hop_seconds, byte = 1 / cost_.bytes_per_second;
  const double others = shape.size - 1, rounds = rounds_for(shape.size);
  const double total = static_cast<double>(total_bytes_of(shape));
  const double incoming = total * others / shape.size;
  switch (shape.kind) {
    case CollectiveKind::all_reduce:
      return all_reduce_seconds(shape);
    case CollectiveKind::reduce_scatter: {
      const double hops = shape.algorithm == Algorithm::ring ? others : rounds;
      return hops * hop + incoming * (byte + 1 / cost_.fold_bytes_per_second);
    }
    case CollectiveKind::all_gather:
    case CollectiveKind::all_to_all: {
      const double copies = total / cost_.fold_bytes_per_second;
      const bool direct = shape.algorithm == Algorithm::one_shot;
      if (direct) return hop + others * cost_.message_seconds + incoming * byte + copies;
      const double agreement = shape.size > 2 ? rounds * hop : 0;
      const double hops = shape.algorithm == Algorithm::circulant ? rounds : others;
      return agreement + hops * hop + incoming * byte;
    }
    default:
      return rooted_seconds(shape);
  }
}

double Tuning::all_reduce_seconds(const Shape& shape) const {
  const double hop = cost_.hop_seconds, byte = 1 / cost_.bytes_per_second,
               fold = 1 / cost_.fold_bytes_per_second;
  const double bytes = static_cast<double>(vector_bytes(shape));
  const double others = shape.size - 1, rounds = rounds_for(shape.size);
  const double share = bytes * others / shape.size;
  switch (shape.algorithm) {
    case Algorithm::one_shot:
      return hop + others * (cost_.message_seconds + bytes * (byte + fold));
    case Algorithm::recursive_doubling: {
      const double steps = power_of_two(shape.size) ? rounds : rounds + 1;
      return steps * (hop + bytes * (byte + fold));
    }
    case Algorithm::circulant:
      return 2 * rounds * hop + share * (2 * byte + fold);
    default: {
      const double segments = std::max(1.0, bytes / shape.size / static_cast<double>(shape.segment_bytes));
      return 2 * others * (hop + (segments - 1) * cost_.message_seconds) + share * (2 * byte + fold);
    }
  }
}

double Tuning::rooted_seconds(const Shape& shape) const {
  const double hop = cost_.hop_seconds, byte = 1 / cost_.bytes_per_second, message = cost_.message_seconds;
  const double bytes = static_cast<double>(vector_bytes(shape));
  const double others = shape.size - 1, rounds = rounds_for(shape.size);
  const double agreement = rounds * hop;
  const bool whole_vector = shape.kind == CollectiveKind::broadcast || shape.kind == CollectiveKind::reduce;
  if (shape.algorithm == Algorithm::tree)
    return agreement + rounds * (hop + (whole_vector ? bytes * byte : 0)) +
           (whole_vector ? 0 : bytes * byte * 1.5);
  if (shape.algorithm == Algorithm::linear) return agreement + hop + others * message + bytes * byte;
  const double segment = std::min(bytes, static_cast<double>(shape.segment_bytes));
  return agreement + others * (hop + segment * byte) + bytes * byte;
}

}  // namespace rondel
