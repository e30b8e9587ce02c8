// SPDX-License-Identifier: Apache-2.0
#include "tests/support/seed.h"

#include <fmt/format.h>

#include <cstdio>
#include <cstdlib>
#include <random>

#include "lib/config.h"

namespace rondel::test {

std::uint64_t test_seed() {
  const char* wanted = environment_variable("RONDEL_TEST_SEED");
  const std::uint64_t seed = wanted != nullptr ? std::strtoull(wanted, nullptr, 10) : std::random_device{}();
  fmt::print(stderr, "seed {} (RONDEL_TEST_SEED={} repeats it)\n", seed, seed);
  return seed;
}

std::uint64_t Random::next() {
  std::uint64_t z = (state_ += 0x9e3779b97f4a7c15U);
  z = (z ^ (z >> 30)) * 0xbf58476d1ce4e5b9U;
  z = (z ^ (z >> 27)) * 0x94d049bb133111ebU;
  return z ^ (z >> 31);
}

}  // namespace rondel::test
