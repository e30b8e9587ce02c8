// SPDX-License-Identifier: Apache-2.0
#include "launcher/arrival_watch.h"

#include <catch2/catch.hpp>
#include <vector>

using Catch::Matchers::Contains;
using rondel::ArrivalWatch;
using std::chrono::seconds;
using Ranks = std::vector<std::int32_t>;

namespace {
const ArrivalWatch::Time kStart{};
}

TEST_CASE("a program that never joins is never warned of") {
  ArrivalWatch watch(4, seconds(10));
  CHECK_FALSE(watch.look(Ranks{}, kStart).has_value());
  CHECK_FALSE(watch.look(Ranks{}, kStart + seconds(10'000)).has_value());
  CHECK_FALSE(watch.over());
}

TEST_CASE("the patience counts from the first arrival, and the missing are named once") {
  ArrivalWatch watch(4, seconds(10));
  CHECK_FALSE(watch.look(Ranks{2}, kStart + seconds(100)).has_value());
  CHECK_FALSE(watch.look(Ranks{2, 0}, kStart + seconds(109)).has_value());
  const auto warning = watch.look(Ranks{2, 0}, kStart + seconds(110));
  REQUIRE(warning.has_value());
  CHECK_THAT(*warning, Contains("2 of 4") && Contains("ranks 1, 3"));
  CHECK(watch.named() == std::vector<rondel::Rank>{1, 3});
  CHECK(watch.over());
  CHECK_FALSE(watch.look(Ranks{2, 0}, kStart + seconds(120)).has_value());
}

TEST_CASE("all arrived: nothing to say") {
  ArrivalWatch watch(2, seconds(1));
  CHECK_FALSE(watch.look(Ranks{1}, kStart).has_value());
  CHECK_FALSE(watch.look(Ranks{1, 0, 0, 7, -1}, kStart + seconds(5)).has_value());
  CHECK(watch.over());
}

TEST_CASE("a long list of missing ranks is cut") {
  ArrivalWatch watch(100, seconds(1));
  CHECK_FALSE(watch.look(Ranks{0}, kStart).has_value());
  const auto warning = watch.look(Ranks{0}, kStart + seconds(1));
  REQUIRE(warning.has_value());
  CHECK_THAT(*warning, Contains("1 of 100") && Contains("16 and 83 more"));
  CHECK(watch.named().size() == 16);
}

TEST_CASE("hosts are named with the ranks where there are several") {
  ArrivalWatch watch(3, seconds(1), {"a", "b", "b"});
  CHECK_FALSE(watch.look(Ranks{0}, kStart).has_value());
  const auto warning = watch.look(Ranks{0}, kStart + seconds(1));
  REQUIRE(warning.has_value());
  CHECK_THAT(*warning, Contains("ranks 1 (b), 2 (b)"));
}
