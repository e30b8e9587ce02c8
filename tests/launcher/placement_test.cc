// SPDX-License-Identifier: Apache-2.0
#include "launcher/placement.h"

#include <catch2/catch.hpp>
#include <map>

#include "tests/support/seed.h"

using Catch::Matchers::Contains;
using rondel::HostSlots;
using rondel::place;
using rondel::Rank;

TEST_CASE("ranks fill one host") {
  const std::vector<HostSlots> hosts{{"here", 3}};
  const auto places = place(hosts, 3);
  REQUIRE(places.ok());
  REQUIRE(places->size() == 3);
  for (Rank rank = 0; rank < 3; ++rank) {
    const auto& at = (*places)[static_cast<std::size_t>(rank)];
    CHECK(at.rank == rank);
    CHECK(at.local_rank == rank);
    CHECK(at.local_size == 3);
    CHECK(at.size == 3);
    CHECK(at.host == 0);
  }
}

TEST_CASE("hosts are filled in order, the last one in part") {
  const std::vector<HostSlots> hosts{{"a", 2}, {"b", 0}, {"c", 4}};
  const auto places = place(hosts, 5);
  REQUIRE(places.ok());
  REQUIRE(places->size() == 5);
  CHECK((*places)[1].host == 0);
  CHECK((*places)[2].host == 2);
  CHECK((*places)[2].local_rank == 0);
  CHECK((*places)[4].local_size == 3);
}

TEST_CASE("impossible placements are refused with both numbers") {
  const std::vector<HostSlots> hosts{{"a", 2}, {"b", 1}};
  const auto crowded = place(hosts, 4);
  REQUIRE_FALSE(crowded.ok());
  CHECK_THAT(crowded.status().text(), Contains("4 ranks") && Contains("3 slots"));
  CHECK_FALSE(place(hosts, 0).ok());
  CHECK_FALSE(place({}, 1).ok());
}

TEST_CASE("random placements are complete and consistent") {
  rondel::test::Random random(rondel::test::test_seed());
  for (int round = 0; round < 2'000; ++round) {
    std::vector<HostSlots> hosts(1 + random.below(6));
    Rank slots = 0;
    for (HostSlots& host : hosts) slots += host.slots = static_cast<Rank>(random.below(5));
    if (slots == 0) continue;
    const Rank ranks = 1 + static_cast<Rank>(random.below(static_cast<unsigned>(slots)));
    const auto places = place(hosts, ranks);
    REQUIRE(places.ok());
    REQUIRE(places->size() == static_cast<std::size_t>(ranks));
    std::map<std::size_t, Rank> on_host;
    Rank rank = 0;
    for (const auto& at : *places) {
      REQUIRE(at.rank == rank++);
      REQUIRE(at.local_rank == on_host[at.host]++);
    }
    for (const auto& at : *places) {
      REQUIRE(at.local_size == on_host[at.host]);
      REQUIRE(at.local_size <= hosts[at.host].slots);
    }
  }
}
