// SPDX-License-Identifier: Apache-2.0
// Which algorithm, segment and window a collective is run with. Pure: from the shape and from costs that all
// ranks have agreed on, so that all choose alike. Any thread.
//
// Sums, averages and products of floating-point numbers depend on the order of their folds. Where more than
// two ranks take part, what fixes that order is chosen by the number of ranks and bytes alone, never by a
// measurement, so that every run gives the same bits; measured costs decide among algorithms that fold in the
// same order (recursive doubling, one shot and, for a power of two, circulant), and for everything that gives
// the same bits in any order. Segments and windows never change the order.
#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <string_view>

#include "lib/status.h"
#include "ring/schedule.h"

namespace rondel {

/// What moving bytes costs here. The defaults are priors for links that could not be measured.
struct Cost {
  double hop_seconds = 20e-6;       ///< a small message to a neighbour while all ranks send one
  double message_seconds = 3e-6;    ///< each further message posted with the first
  double bytes_per_second = 1.5e9;  ///< one direction, both in use
  double fold_bytes_per_second = 8e9;
};

/// What an endpoint can do; equal on all ranks.
struct Limits {
  std::uint64_t preferred_segment_bytes = 512 * 1024;
  std::uint32_t max_in_flight = 16;
  std::uint32_t max_slices = 64;
};

/// ring, circulant, one_shot, recursive_doubling or hierarchical; nothing for an empty text. invalid_argument
/// lists them.
Result<std::optional<Algorithm>> parse_algorithm(std::string_view text);

class Tuning {
 public:
  Tuning() = default;
  /// `wanted` is used for every collective that it can run within the scratch limit; the others choose by
  /// cost. `segment_bytes`: 0 for the endpoint's preference.
  Tuning(Cost cost, Limits limits, std::optional<Algorithm> wanted, std::uint64_t segment_bytes);

  /// Sets algorithm, segment_bytes, window and the limits of `shape`, whose other fields are set.
  void choose(Shape& shape, DataType type, ReduceOp op) const;

  const Cost& cost() const { return cost_; }

 private:
  Algorithm choose_algorithm(Shape& shape, bool order_matters) const;
  std::span<const Algorithm> of_one_order(const Shape& shape) const;
  Algorithm cheapest(Shape& shape, std::span<const Algorithm> candidates) const;
  double seconds(const Shape& shape) const;
  double all_reduce_seconds(const Shape& shape) const;
  double rooted_seconds(const Shape& shape) const;

  Cost cost_;
  Limits limits_;
  std::optional<Algorithm> wanted_;
  std::uint64_t segment_bytes_ = 0;
};

}  // namespace rondel
