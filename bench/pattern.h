// SPDX-License-Identifier: Apache-2.0
// Pattern: what each rank's buffer holds before a verified run, and what must stand in it afterwards. Every
// value is an integer that depends on position, rank and seed, and so small that sums are exact in every type
// in whatever order they are taken; only the average of 16-bit floats, which is rounded on the way, has a
// tolerance. A value, any thread. It moves no data between ranks.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>

#include "lib/types.h"

namespace rondel::bench {

class Pattern {
 public:
  /// Without `op` the data is only copied. `supports(type, *op)` must hold.
  Pattern(DataType type, std::optional<ReduceOp> op, Rank ranks, std::uint32_t seed);

  /// Writes elements [first, first + elements) of `rank`'s input to `to`.
  void fill(void* to, Rank rank, std::size_t first, std::size_t elements) const;
  /// How many of `elements` differ from elements [first, ...) of `source`'s input.
  std::size_t count_wrong_copies(const void* data, Rank source, std::size_t first,
                                 std::size_t elements) const;
  /// How many of `elements` differ from elements [first, ...) of the reduction over all ranks.
  std::size_t count_wrong_results(const void* data, std::size_t first, std::size_t elements) const;

 private:
  enum class Kind : std::uint8_t { small, powers, mostly_zeros, mostly_ones, bits };

  static Kind kind_of(DataType type, std::optional<ReduceOp> op);
  bool has_a_turn(Rank rank, std::size_t index) const;
  std::int64_t value(Rank rank, std::size_t index) const;
  std::int64_t combine(std::int64_t a, std::int64_t b) const;
  std::int64_t reduce(std::size_t index) const;

  DataType type_;
  std::optional<ReduceOp> op_;
  Rank ranks_;
  std::uint32_t seed_;
  Kind kind_;
  std::uint32_t most_ = 0;  // largest value of kind small
  Rank ranks_with_values_ =
      0;  // at most so many ranks, others in turn, hold more than 0 (small) or 1 (powers)
};

}  // namespace rondel::bench
