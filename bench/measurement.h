// SPDX-License-Identifier: Apache-2.0
// What a benchmark found: times of one size and placement, and the row that shows them. Values; any thread.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <utility>
#include <vector>

namespace rondel::bench {

/// Microseconds; each sample is the slowest rank's time of one iteration.
struct Times {
  double median_us = 0, p95_us = 0, mean_us = 0, min_us = 0, max_us = 0;
  int iterations = 0, warmup = 0;
};

/// `samples_us` must not be empty. Nearest-rank percentile; the median of an even number is the mean of the
/// middle two.
Times summarize(std::vector<double> samples_us, int warmup);

/// What one iteration took on one rank, on the average.
struct Effort {
  double sent_bytes = 0;
  std::vector<std::pair<std::string, double>>
      counts;  // of the transport, by its names; none: it counts nothing
};

/// `before` and `after` `iterations` iterations, since some beginning.
Effort effort_of_each(const Effort& before, const Effort& after, int iterations);

struct Measurement {
  Times times;
  Effort effort;                                    // of this rank
  double algorithm_gb_per_s = 0, bus_gb_per_s = 0;  // 10^9 bytes
  std::optional<std::int64_t> wrong;                // elements on all ranks; nothing when not verified
};

struct Row {
  std::size_t size_bytes = 0, count = 0;
  Measurement out_of_place;
  std::optional<Measurement> in_place;  // nothing when the collective cannot
};

}  // namespace rondel::bench
