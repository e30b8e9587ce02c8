// SPDX-License-Identifier: Apache-2.0
// The only arithmetic in the project that splits n elements into k parts. Pure, any thread.
#pragma once

#include <algorithm>
#include <cstdint>

namespace rondel {

struct Range {
  std::uint64_t begin = 0;
  std::uint64_t count = 0;
  std::uint64_t end() const { return begin + count; }
  bool operator==(const Range&) const = default;
};

/// Part `index` of `total` elements cut into `parts` contiguous parts whose sizes differ by at most one, the
/// larger ones first. `parts` > 0, `index` < `parts`. Parts beyond `total` are empty.
constexpr Range part_of(std::uint64_t total, std::uint64_t parts, std::uint64_t index) {
  const std::uint64_t base = total / parts;
  const std::uint64_t larger = total % parts;
  return {index * base + std::min(index, larger), base + (index < larger ? 1 : 0)};
}

/// How many pieces of at most `limit` elements `total` needs; at least one. `limit` > 0.
constexpr std::uint64_t pieces_for(std::uint64_t total, std::uint64_t limit) {
  return total == 0 ? 1 : (total - 1) / limit + 1;
}

}  // namespace rondel
