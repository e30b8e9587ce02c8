// SPDX-License-Identifier: Apache-2.0
#include "bench/measurement.h"

#include <algorithm>
#include <numeric>

namespace rondel::bench {

Times summarize(std::vector<double> samples_us, int warmup) {
  std::sort(samples_us.begin(), samples_us.end());
  const std::size_t n = samples_us.size(), middle = n / 2;
  Times times;
  times.median_us = n % 2 == 1 ? samples_us[middle] : (samples_us[middle - 1] + samples_us[middle]) / 2;
  times.p95_us = samples_us[(n * 95 + 99) / 100 - 1];
  times.mean_us = std::accumulate(samples_us.begin(), samples_us.end(), 0.0) / static_cast<double>(n);
  times.min_us = samples_us.front();
  times.max_us = samples_us.back();
  times.iterations = static_cast<int>(n);
  times.warmup = warmup;
  return times;
}

Effort effort_of_each(const Effort& before, const Effort& after, int iterations) {
  Effort each{.sent_bytes = (after.sent_bytes - before.sent_bytes) / iterations, .counts = after.counts};
  for (std::size_t i = 0; i < each.counts.size(); ++i)
    each.counts[i].second = (each.counts[i].second - before.counts[i].second) / iterations;
  return each;
}

}  // namespace rondel::bench
