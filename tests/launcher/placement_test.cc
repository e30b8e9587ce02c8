// SPDX-License-Identifier: Apache-2.0
#include "launcher/placement.h"

#include <fmt/format.h>

#include <algorithm>
#include <catch2/catch.hpp>
#include <map>
#include <numeric>
#include <string>
#include <vector>

#include "tests/support/seed.h"

using Catch::Matchers::Contains;
using rondel::Host;
using rondel::kMostRanks;
using rondel::MapBy;
using rondel::place;
using rondel::PlacementRules;
using rondel::Rank;
using rondel::RankPlace;
using Places = std::vector<RankPlace>;

namespace {

/// Hosts a, b, c... with these slots.
std::vector<Host> hosts_with(const std::vector<Rank>& slots) {
  std::vector<Host> hosts;
  hosts.reserve(slots.size());
  for (const Rank each : slots)
    hosts.push_back({.name = std::string(1, static_cast<char>('a' + hosts.size())), .slots = each});
  return hosts;
}

Places places_of(const std::vector<Rank>& slots, const PlacementRules& rules) {
  const auto hosts = hosts_with(slots);
  auto places = place(hosts, rules);
  INFO(places.status().text());
  REQUIRE(places.ok());
  return *std::move(places);
}

/// The host of each rank, as a word: "aab".
std::string map_of(const std::vector<Rank>& slots, const PlacementRules& rules) {
  std::string map;
  for (const RankPlace& at : places_of(slots, rules)) map += static_cast<char>('a' + at.host);
  return map;
}

std::string error_of(const std::vector<Rank>& slots, const PlacementRules& rules) {
  const auto hosts = hosts_with(slots);
  const auto places = place(hosts, rules);
  REQUIRE_FALSE(places.ok());
  CHECK(places.code() == rondel::Code::invalid_argument);
  return places.status().text();
}

Rank sum_of(const std::vector<Rank>& slots) { return std::accumulate(slots.begin(), slots.end(), Rank{0}); }

std::vector<Rank> counts_of(const Places& places, std::size_t hosts) {
  std::vector<Rank> counts(hosts);
  for (const RankPlace& at : places) ++counts[at.host];
  return counts;
}

/// What holds for every table: ranks in order, local and cross ranks dense, sizes true.
void require_consistent(const Places& places, std::size_t hosts) {
  const auto counts = counts_of(places, hosts);
  std::vector<Rank> local_ranks(hosts);
  Rank rank = 0;
  for (const RankPlace& at : places) {
    REQUIRE(at.rank == rank++);
    REQUIRE(at.size == static_cast<Rank>(places.size()));
    REQUIRE(at.host < hosts);
    REQUIRE(at.local_rank == local_ranks[at.host]++);
    REQUIRE(at.local_size == counts[at.host]);
    const auto has = [&at](Rank count) { return count > at.local_rank; };
    const auto here = counts.begin() + static_cast<std::ptrdiff_t>(at.host);
    REQUIRE(at.cross_rank == std::count_if(counts.begin(), here, has));
    REQUIRE(at.cross_size == std::count_if(counts.begin(), counts.end(), has));
  }
}

/// By slot the ranks of a host are neighbours; by node a host that has no more slots is the only reason to
/// leave it out of a round.
void require_order(const Places& places, MapBy map_by) {
  for (std::size_t i = 1; i < places.size(); ++i) {
    const RankPlace &before = places[i - 1], &at = places[i];
    if (map_by == MapBy::slot)
      REQUIRE((at.host == before.host ? at.local_rank == before.local_rank + 1 : at.host > before.host));
    else
      REQUIRE((at.local_rank == before.local_rank ? at.host > before.host
                                                  : at.local_rank == before.local_rank + 1));
  }
}

/// Of up to six hosts, some of which have none.
std::vector<Rank> random_slots(rondel::test::Random& random) {
  std::vector<Rank> slots(1 + random.below(6));
  for (Rank& each : slots) each = static_cast<Rank>(random.below(5));
  return slots;
}

MapBy random_way(rondel::test::Random& random) { return random.below(2) == 0 ? MapBy::slot : MapBy::node; }

}  // namespace

TEST_CASE("ranks fill one host") {
  const auto places = places_of({3}, {.ranks = 3});
  REQUIRE(places.size() == 3);
  for (Rank rank = 0; rank < 3; ++rank) {
    const auto& at = places[static_cast<std::size_t>(rank)];
    CHECK(at.rank == rank);
    CHECK(at.local_rank == rank);
    CHECK(at.local_size == 3);
    CHECK(at.size == 3);
    CHECK(at.host == 0);
    CHECK(at.cross_rank == 0);
    CHECK(at.cross_size == 1);
  }
}

TEST_CASE("hosts are filled in order, the last one in part") {
  const auto places = places_of({2, 0, 4}, {.ranks = 5});
  REQUIRE(places.size() == 5);
  CHECK(places[1].host == 0);
  CHECK(places[2].host == 2);
  CHECK(places[2].local_rank == 0);
  CHECK(places[2].cross_rank == 1);
  CHECK(places[2].cross_size == 2);
  CHECK(places[4].local_size == 3);
  CHECK(places[4].cross_rank == 0);  // the first host has no third rank
  CHECK(places[4].cross_size == 1);
}

TEST_CASE("without a number of ranks every slot takes one") {
  CHECK(map_of({2, 1}, {}) == "aab");
  CHECK(map_of({1, 3}, {.map_by = MapBy::node}) == "abbb");
  CHECK(map_of({2, 2}, {.per_host = 1}) == "ab");
}

TEST_CASE("by node goes in rounds over the hosts that still have slots") {
  CHECK(map_of({2, 2, 2}, {.ranks = 6, .map_by = MapBy::node}) == "abcabc");
  CHECK(map_of({3, 1, 2}, {.ranks = 6, .map_by = MapBy::node}) == "abcaca");
  CHECK(map_of({3, 1, 2}, {.ranks = 4, .map_by = MapBy::node}) == "abca");
  CHECK(map_of({4, 4, 4}, {.ranks = 2, .map_by = MapBy::node}) == "ab");
  const auto places = places_of({3, 1, 2}, {.ranks = 6, .map_by = MapBy::node});
  CHECK(places[4].local_rank == 1);
  CHECK(places[4].local_size == 2);
  CHECK(places[4].cross_rank == 1);
  CHECK(places[4].cross_size == 2);
}

TEST_CASE("a number for each host") {
  CHECK(map_of({4, 4, 4}, {.ranks = 4, .per_host = 2}) == "aabb");
  CHECK(map_of({4, 4}, {.per_host = 2, .map_by = MapBy::node}) == "abab");
  CHECK(map_of({1, 1}, {.per_host = 2, .oversubscribe = true}) == "aabb");
  CHECK(map_of({2, 2, 1}, {.ranks = 4, .per_host = 2}) == "aabb");  // the small host is not needed
  CHECK_THAT(error_of({2, 1}, {.per_host = 2}), Contains("2 ranks on each host") &&
                                                    Contains("host b has slots for 1") && Contains("b:2") &&
                                                    Contains("--oversubscribe"));
  CHECK_THAT(error_of({2, 2}, {.ranks = 6, .per_host = 2}),
             Contains("6 ranks") && Contains("3 hosts") && Contains("there are 2"));
  CHECK_THAT(error_of({8}, {.ranks = 8, .per_host = 4}), Contains("2 hosts") && Contains("there is 1"));
  CHECK_THAT(error_of({2, 2}, {.ranks = 3, .per_host = 2}),
             Contains("3 ranks") && Contains("multiple of 2") && Contains("-np"));
}

TEST_CASE("more ranks than slots: refused with the way out, or spread evenly") {
  CHECK_THAT(error_of({2, 1}, {.ranks = 4}),
             Contains("4 ranks") && Contains("3 slots") && Contains("--oversubscribe"));
  const auto crowd = [](Rank ranks, MapBy map_by = MapBy::slot) {
    return PlacementRules{.ranks = ranks, .map_by = map_by, .oversubscribe = true};
  };
  CHECK(map_of({2, 2}, crowd(3)) == "aab");
  CHECK(map_of({2, 2}, crowd(6)) == "aaabbb");
  CHECK(map_of({4, 2}, crowd(8)) == "aaaaabbb");
  CHECK(map_of({4, 2}, crowd(12)) == "aaaaaaaabbbb");
  CHECK(map_of({1, 0, 1}, crowd(5)) == "aaacc");
  CHECK(map_of({2, 1}, crowd(5, MapBy::node)) == "ababa");
}

TEST_CASE("impossible placements are refused with both numbers") {
  CHECK_THAT(error_of({2, 1}, {.ranks = -1}), Contains("-1 ranks"));
  CHECK_THAT(error_of({2, 1}, {.per_host = -1}), Contains("-1 on each host"));
  CHECK_THAT(error_of({}, {}), Contains("0 slots"));
  CHECK_THAT(error_of({}, {.ranks = 1, .oversubscribe = true}), Contains("0 slots"));
  CHECK_THAT(error_of({0, -5}, {.ranks = 1, .oversubscribe = true}), Contains("0 slots"));
  CHECK_FALSE(place({}, {.per_host = 1}).ok());
  CHECK_THAT(error_of({kMostRanks, 1}, {}), Contains("65537 ranks") && Contains("65536"));
  CHECK_THAT(error_of({1, 1}, {.ranks = kMostRanks + 1, .oversubscribe = true}), Contains("65537 ranks"));
  CHECK_THAT(error_of({1, 1}, {.per_host = kMostRanks, .oversubscribe = true}), Contains("131072 ranks"));
  CHECK(places_of({kMostRanks}, {}).size() == kMostRanks);
}

TEST_CASE("one large host among many small ones is placed without delay") {
  std::vector<Rank> slots(65'000, 1);
  slots.front() = 500;
  for (const MapBy map_by : {MapBy::slot, MapBy::node}) {
    const auto places = places_of(slots, {.map_by = map_by});
    CHECK(places.size() == 65'499);
    CHECK(places.back().host == (map_by == MapBy::slot ? 64'999U : 0U));
  }
}

TEST_CASE("random placements are complete and consistent") {
  rondel::test::Random random(rondel::test::test_seed());
  for (int round = 0; round < 4'000; ++round) {
    const std::vector<Rank> slots = random_slots(random);
    const Rank all = sum_of(slots);
    if (all == 0) continue;
    const MapBy map_by = random_way(random);
    const Rank ranks = static_cast<Rank>(random.below(static_cast<std::uint64_t>(all) + 1));
    INFO(fmt::format("{} slots: {}, ranks {}", map_by == MapBy::slot ? "by slot," : "by node,", all, ranks));
    const auto places = places_of(slots, {.ranks = ranks, .map_by = map_by});
    REQUIRE(static_cast<Rank>(places.size()) == (ranks == 0 ? all : ranks));
    require_consistent(places, slots.size());
    require_order(places, map_by);
    const auto counts = counts_of(places, slots.size());
    for (std::size_t i = 0; i < slots.size(); ++i) REQUIRE(counts[i] <= slots[i]);
    if (map_by == MapBy::slot) continue;
    // Even: nobody has two more than a host that has slots left.
    const Rank most = *std::max_element(counts.begin(), counts.end());
    for (std::size_t i = 0; i < slots.size(); ++i) REQUIRE((counts[i] == slots[i] || counts[i] + 1 >= most));
  }
}

TEST_CASE("random crowded placements load every slot alike") {
  rondel::test::Random random(rondel::test::test_seed());
  for (int round = 0; round < 4'000; ++round) {
    const std::vector<Rank> slots = random_slots(random);
    const Rank all = sum_of(slots);
    if (all == 0) continue;
    const MapBy map_by = random_way(random);
    const Rank ranks = all + static_cast<Rank>(random.below(40));
    const auto places = places_of(slots, {.ranks = ranks, .map_by = map_by, .oversubscribe = true});
    REQUIRE(static_cast<Rank>(places.size()) == ranks);
    require_consistent(places, slots.size());
    require_order(places, map_by);
    const auto counts = counts_of(places, slots.size());
    const Rank full = ranks / all;  // every slot has that many; the rest is dealt host by host
    Rank most = 0;
    for (std::size_t i = 0; i < slots.size(); ++i) most = std::max(most, counts[i] - full * slots[i]);
    for (std::size_t i = 0; i < slots.size(); ++i) {
      const Rank extra = counts[i] - full * slots[i];
      REQUIRE(extra >= 0);
      REQUIRE((extra == slots[i] || extra + 1 >= most));
      REQUIRE(extra <= slots[i]);
    }
  }
}

TEST_CASE("random placements of a number for each host") {
  rondel::test::Random random(rondel::test::test_seed());
  for (int round = 0; round < 2'000; ++round) {
    std::vector<Rank> slots(1 + random.below(6));
    for (Rank& each : slots) each = static_cast<Rank>(1 + random.below(4));
    const Rank each = 1 + static_cast<Rank>(random.below(4));
    const auto used = 1 + random.below(slots.size());
    const PlacementRules rules{
        .ranks = each * static_cast<Rank>(used), .per_host = each, .map_by = random_way(random)};
    const bool fits = std::all_of(slots.begin(), slots.begin() + static_cast<std::ptrdiff_t>(used),
                                  [each](Rank here) { return here >= each; });
    const auto hosts = hosts_with(slots);
    const auto places = place(hosts, rules);
    REQUIRE(places.ok() == fits);
    if (!fits) continue;
    require_consistent(*places, slots.size());
    require_order(*places, rules.map_by);
    const auto counts = counts_of(*places, slots.size());
    for (std::size_t i = 0; i < slots.size(); ++i) REQUIRE(counts[i] == (i < used ? each : 0));
  }
}
