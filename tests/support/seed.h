// SPDX-License-Identifier: Apache-2.0
// Random numbers that can be had again: the seed is printed, and RONDEL_TEST_SEED repeats a run. Values, any
// thread.
#pragma once

#include <cstdint>

namespace rondel::test {

/// RONDEL_TEST_SEED when it is set, else a fresh one; printed to stderr once for each call.
std::uint64_t test_seed();

/// A small generator (SplitMix64) whose numbers are the same on every machine.
class Random {
 public:
  explicit Random(std::uint64_t seed) : state_(seed) {}
  std::uint64_t next();
  /// 0 .. limit - 1; `limit` > 0.
  std::uint64_t below(std::uint64_t limit) { return next() % limit; }
  bool happens(double probability) { return static_cast<double>(next() >> 11) * 0x1p-53 < probability; }

 private:
  std::uint64_t state_;
};

}  // namespace rondel::test
