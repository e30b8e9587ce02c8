// SPDX-License-Identifier: Apache-2.0
// Which sizes a benchmark runs and how often each: pure functions of the flags, equal on every rank.
// Times nothing; the one measured input, seconds per iteration, is agreed among the ranks by the caller.
#pragma once

#include <cstddef>
#include <string_view>
#include <vector>

#include "lib/status.h"

namespace rondel::bench {

struct Sweep {
  std::size_t begin_bytes = 4;
  std::size_t end_bytes = std::size_t{64} << 20;
  std::size_t step_bytes = 0;  // 0: multiply by `factor` instead
  std::size_t factor = 4;
  int iterations = 0;  // 0: by size
  int warmup = -1;     // -1: by size
};

/// "8", "64K", "128M", "1G": binary suffixes, as nccl-tests takes them.
Result<std::size_t> parse_bytes(std::string_view text);

/// The sizes from begin to end, both included when the steps meet them.
std::vector<std::size_t> sizes_of(const Sweep& sweep);

/// About 256 MiB per size, at least 10 and at most 2,000 iterations; what -n says when it is given.
int iterations_for(const Sweep& sweep, std::size_t bytes);
/// A fifth of that, at least 3 and at most 100; what -w says when it is given.
int warmup_for(const Sweep& sweep, std::size_t bytes);
/// Keeps a size to about half a second (but 10 iterations) where iterations turn out slow; -n is left alone.
int limit_iterations(const Sweep& sweep, int iterations, double seconds_each);

}  // namespace rondel::bench
