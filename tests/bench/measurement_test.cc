// SPDX-License-Identifier: Apache-2.0
#include "bench/measurement.h"

#include <catch2/catch.hpp>

namespace rondel::bench {
namespace {

TEST_CASE("median, percentile, mean and ends of samples in any order") {
  const Times odd = summarize({5, 1, 4, 2, 3}, 9);
  CHECK(odd.median_us == 3);
  CHECK(odd.p95_us == 5);
  CHECK(odd.mean_us == 3);
  CHECK(odd.min_us == 1);
  CHECK(odd.max_us == 5);
  CHECK(odd.iterations == 5);
  CHECK(odd.warmup == 9);
  CHECK(summarize({4, 1, 3, 2}, 0).median_us == 2.5);
  CHECK(summarize({7}, 0).p95_us == 7);
}

TEST_CASE("the 95th percentile leaves the slowest twentieth out") {
  std::vector<double> samples;
  for (int i = 100; i > 0; --i) samples.push_back(i);
  CHECK(summarize(samples, 0).p95_us == 95);
}

TEST_CASE("the effort of one iteration is the difference, divided") {
  const Effort before{.sent_bytes = 100, .counts = {{"a", 4}, {"b", 0}}};
  const Effort after{.sent_bytes = 300, .counts = {{"a", 8}, {"b", 1}}};
  const Effort each = effort_of_each(before, after, 4);
  CHECK(each.sent_bytes == 50);
  CHECK(each.counts == std::vector<std::pair<std::string, double>>{{"a", 1}, {"b", 0.25}});
}

}  // namespace
}  // namespace rondel::bench
