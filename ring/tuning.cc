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
constexpr std::uint64_t kSmallestSegmentBytes = 64 * 1024;

// The fixed borders between orders of folding; see tuning.h.
constexpr std::uint64_t kOneShotBytes = 16 * 1024;  // received by each rank
constexpr Rank kOneShotRanks = 16;
constexpr std::uint64_t kLeftOverRanksBytes = 8 * 1024;  // recursive doubling for any number of ranks
constexpr Rank kFewRanks = 8;
constexpr std::uint64_t kRingChunkBytes = 256 * 1024;  // few ranks
constexpr std::uint64_t kManyRanksRingChunkBytes = 4 * 1024 * 1024;
constexpr std::uint64_t kTreeReduceBytes = 64 * 1024;

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
  for (const Algorithm algorithm :
       {Algorithm::ring, Algorithm::circulant, Algorithm::one_shot, Algorithm::recursive_doubling})
    if (name_of(algorithm) == text) return std::optional(algorithm);
  return Status(Code::invalid_argument, fmt::format("there is no algorithm \"{}\"", text),
                "RONDEL_ALGORITHM is ring, circulant, one_shot or recursive_doubling, or not set");
}

Tuning::Tuning(Cost cost, Limits limits, std::optional<Algorithm> wanted, std::uint64_t segment_bytes)
    : cost_(cost), limits_(limits), wanted_(wanted), segment_bytes_(segment_bytes) {}

void Tuning::choose(Shape& shape, DataType type, ReduceOp op) const {
  shape.max_in_flight = limits_.max_in_flight;
  shape.max_slices = limits_.max_slices;
  shape.window = std::min(kWindow, limits_.max_in_flight);
  shape.segment_bytes = segment_bytes_ > 0 ? segment_bytes_ : limits_.preferred_segment_bytes;
  const bool ordered_op = op == ReduceOp::sum || op == ReduceOp::average || op == ReduceOp::product;
  const bool order_matters = reduces(shape.kind) && is_floating(type) && ordered_op && shape.size > 2;
  shape.algorithm = choose_algorithm(shape, order_matters);
  if (segment_bytes_ > 0 || shape.algorithm != Algorithm::ring || shape.size < 2) return;
  // Two segments a chunk, so that one is on its way while the other is folded.
  const std::uint64_t half_chunk = vector_bytes(shape) / static_cast<std::uint64_t>(shape.size) / 2;
  shape.segment_bytes = std::min(shape.segment_bytes, std::max(half_chunk, kSmallestSegmentBytes));
}

Algorithm Tuning::choose_algorithm(Shape& shape, bool order_matters) const {
  if (wanted_) {
    shape.algorithm = *wanted_;
    if (can_run(shape)) return *wanted_;
  }
  if (order_matters) {
    shape.algorithm = choose_by_size(shape);
    if (can_run(shape)) return shape.algorithm;
    return Algorithm::ring;  // runs every collective that reduces, at any size
  }
  return cheapest(shape);
}

Algorithm Tuning::choose_by_size(const Shape& shape) const {
  const std::uint64_t bytes = vector_bytes(shape);
  const auto ranks = static_cast<std::uint64_t>(shape.size);
  if (shape.kind == CollectiveKind::reduce)
    return bytes <= kTreeReduceBytes ? Algorithm::tree : Algorithm::ring;
  const std::uint64_t ring_chunk = shape.size <= kFewRanks ? kRingChunkBytes : kManyRanksRingChunkBytes;
  if (bytes / ranks >= ring_chunk) return Algorithm::ring;
  if (shape.kind == CollectiveKind::reduce_scatter) return Algorithm::circulant;
  if (shape.size <= kOneShotRanks && bytes * (ranks - 1) <= kOneShotBytes) return Algorithm::one_shot;
  if (!power_of_two(shape.size))
    return bytes <= kLeftOverRanksBytes ? Algorithm::recursive_doubling : Algorithm::circulant;
  Shape doubling = shape, circulant = shape;
  doubling.algorithm = Algorithm::recursive_doubling;
  circulant.algorithm = Algorithm::circulant;
  const bool double_it = can_run(doubling) && all_reduce_seconds(doubling) < all_reduce_seconds(circulant);
  return double_it ? Algorithm::recursive_doubling : Algorithm::circulant;
}

Algorithm Tuning::cheapest(Shape& shape) const {
  std::optional<Algorithm> best;
  double best_seconds = std::numeric_limits<double>::max();
  for (std::size_t i = 0; i < kAlgorithmCount; ++i) {
    shape.algorithm = static_cast<Algorithm>(i);
    if (!can_run(shape)) continue;
    const double estimate = seconds(shape);
    if (best && estimate >= best_seconds) continue;
    best = shape.algorithm;
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
