// SPDX-License-Identifier: Apache-2.0
#include "ring/schedule.h"

#include <array>

#include "lib/check.h"
#include "ring/schedule_builder.h"

namespace rondel {
namespace {

constexpr Rank kTreeRankLimit = 1 << 20;

bool algorithm_knows(Algorithm algorithm, CollectiveKind kind) {
  using Kind = CollectiveKind;
  switch (kind) {
    case Kind::all_reduce:
      return algorithm != Algorithm::tree && algorithm != Algorithm::linear;
    case Kind::reduce_scatter:
      return algorithm == Algorithm::ring || algorithm == Algorithm::circulant;
    case Kind::all_gather:
      return algorithm == Algorithm::ring || algorithm == Algorithm::circulant ||
             algorithm == Algorithm::one_shot;
    case Kind::broadcast:
    case Kind::reduce:
      return algorithm == Algorithm::tree || algorithm == Algorithm::ring;
    case Kind::gather:
    case Kind::scatter:
      return algorithm == Algorithm::tree || algorithm == Algorithm::linear;
    case Kind::all_to_all:
      return algorithm == Algorithm::linear || algorithm == Algorithm::one_shot;
    case Kind::barrier:
      return algorithm == Algorithm::linear;
    case Kind::send:
    case Kind::recv:
      return false;  // no schedule is needed
  }
  return false;
}

std::uint64_t total_count(const Shape& shape) {
  if (shape.counts.empty()) return shape.count * static_cast<std::uint64_t>(shape.size);
  std::uint64_t total = 0;
  for (const std::uint64_t count : shape.counts) total += count;
  return total;
}

/// Scratch of the algorithms that can not do with less; the others cut their work to fit.
std::uint64_t least_scratch_bytes(const Shape& shape) {
  const std::uint64_t own = shape.count * shape.element_bytes;
  const auto others = static_cast<std::uint64_t>(shape.size - 1);
  switch (shape.algorithm) {
    case Algorithm::one_shot:
      return shape.kind == CollectiveKind::all_gather ? total_count(shape) * shape.element_bytes
                                                      : own * others;
    case Algorithm::recursive_doubling:
      return 2 * own;
    case Algorithm::tree:
      if (shape.kind == CollectiveKind::broadcast) return 0;
      return shape.kind == CollectiveKind::reduce ? own : total_count(shape) * shape.element_bytes;
    default:
      return 0;
  }
}

/// Works per round of a circulant reduce-scatter that is cut into passes.
bool circulant_fits(const Shape& shape) {
  if (shape.kind != CollectiveKind::reduce_scatter) return true;
  const auto kept = static_cast<std::uint64_t>(shape.size / 2);
  return pieces_for(kept, shape.max_slices) + 8 <= shape.max_in_flight ||
         total_count(shape) * shape.element_bytes <= shape.scratch_limit_bytes;
}

}  // namespace

std::string_view name_of(Algorithm algorithm) {
  constexpr std::array<std::string_view, kAlgorithmCount> kNames{
      "ring", "circulant", "one_shot", "recursive_doubling", "tree", "linear", "hierarchical"};
  return kNames[static_cast<std::size_t>(algorithm)];
}

bool can_run(const Shape& shape) {
  if (!algorithm_knows(shape.algorithm, shape.kind)) return false;
  if (shape.size == 1) return true;
  if (shape.algorithm == Algorithm::one_shot && shape.kind == CollectiveKind::all_to_all &&
      !shape.counts.empty())
    return false;
  if (shape.algorithm == Algorithm::hierarchical && !hierarchical_fits(shape)) return false;
  if (shape.algorithm == Algorithm::circulant && !circulant_fits(shape)) return false;
  return shape.size <= kTreeRankLimit && least_scratch_bytes(shape) <= shape.scratch_limit_bytes;
}

Schedule make_schedule(const Shape& shape) {
  check(can_run(shape), "a schedule is made for an algorithm that can run it");
  ScheduleBuilder builder(shape);
  const bool counted = !shape.counts.empty();
  if (shape.size == 1) {
    write_alone(builder);
  } else if (shape.kind == CollectiveKind::barrier || (shape.count == 0 && !counted)) {
    write_barrier(builder);  // nothing to move, but ranks that disagree still find out
  } else if (shape.kind == CollectiveKind::all_to_all && shape.algorithm == Algorithm::linear) {
    write_all_to_all(builder);
  } else {
    switch (shape.algorithm) {
      case Algorithm::ring:
        if (shape.kind == CollectiveKind::broadcast || shape.kind == CollectiveKind::reduce)
          write_chain(builder);
        else
          write_ring(builder);
        break;
      case Algorithm::circulant:
        write_circulant(builder);
        break;
      case Algorithm::one_shot:
        write_one_shot(builder);
        break;
      case Algorithm::recursive_doubling:
        write_recursive_doubling(builder);
        break;
      case Algorithm::tree:
        write_tree(builder);
        break;
      case Algorithm::linear:
        write_rooted_linear(builder);
        break;
      case Algorithm::hierarchical:
        write_hierarchical(builder);
        break;
    }
  }
  return builder.finish();
}

Schedule make_agreement(Rank rank, Rank size) {
  Shape shape;
  shape.rank = rank;
  shape.size = size;
  ScheduleBuilder builder(shape);
  if (size > 1) builder.agree();
  return builder.finish();
}

}  // namespace rondel
