// SPDX-License-Identifier: Apache-2.0
#include <fmt/format.h>

#include <algorithm>
#include <catch2/catch.hpp>
#include <numeric>
#include <random>
#include <set>

#include "lib/partition.h"
#include "ring/schedule_builder.h"
#include "tests/ring/simulator.h"

namespace rondel::test {
namespace {

using Kind = CollectiveKind;

constexpr std::uint64_t kSeed = 20240611;
constexpr std::uint64_t kCounts[] = {0, 1, 2, 3, 5, 8, 13, 31, 97};

struct Limits {
  std::uint64_t segment_bytes;
  std::uint32_t window, max_slices;
  std::uint64_t scratch;
};
constexpr Limits kLimits[] = {
    {512 * 1024, 4, 64, 1 << 20}, {16, 1, 1, 1 << 20}, {8, 3, 64, 256}, {24, 4, 4, 128}, {16, 2, 2, 96}};

Shape with(Shape shape, const Limits& limits) {
  shape.segment_bytes = limits.segment_bytes;
  shape.window = limits.window;
  shape.max_slices = limits.max_slices;
  shape.scratch_limit_bytes = limits.scratch;
  return shape;
}

void hold(Simulation simulation, int& runs) {
  simulation.shape.element_bytes = 8;
  if (!can_run(simulation.shape)) return;
  simulation.seed = kSeed + static_cast<std::uint64_t>(runs++);
  const std::string verdict = simulation.verdict();
  INFO(describe(simulation.shape) << " seed " << simulation.seed);
  REQUIRE(verdict == "");
}

void hold_for_all_limits(const Shape& shape, int& runs) {
  for (const Limits& limits : kLimits)
    for (const bool in_place : {false, true}) {
      Simulation simulation;
      simulation.shape = with(shape, limits);
      simulation.shape.in_place = in_place;
      hold(simulation, runs);
    }
}

Shape shape_of(Kind kind, Algorithm algorithm, Rank size, std::uint64_t count) {
  Shape shape;
  shape.kind = kind;
  shape.algorithm = algorithm;
  shape.size = size;
  shape.count = count;
  return shape;
}

std::vector<std::uint64_t> uneven(Rank size, std::uint64_t most, std::uint64_t seed) {
  std::mt19937_64 random(seed);
  std::vector<std::uint64_t> counts(static_cast<std::size_t>(size));
  for (auto& count : counts) count = random() % 3 == 0 ? 0 : random() % (most + 1);
  return counts;
}

constexpr Algorithm kReducing[] = {Algorithm::ring, Algorithm::circulant, Algorithm::one_shot,
                                   Algorithm::recursive_doubling};

TEST_CASE("every element is folded exactly once per rank, for every algorithm, size, count and limit") {
  int runs = 0;
  for (const Algorithm algorithm : kReducing)
    for (Rank size = 1; size <= 9; ++size)
      for (const std::uint64_t count : kCounts) {
        Shape shape = shape_of(Kind::all_reduce, algorithm, size, count);
        shape.fold_pairwise = count % 2 == 1;
        hold_for_all_limits(shape, runs);
      }
  CHECK(runs > 2000);
}

TEST_CASE("averages: weights are right and all ranks get the same bits; division happens once") {
  int runs = 0;
  for (const Algorithm algorithm : kReducing)
    for (const Rank size : {2, 3, 4, 5, 6, 7, 11, 12, 17})
      for (const std::uint64_t count : {1U, 13U, 40U}) {
        Simulation simulation;
        simulation.shape = shape_of(Kind::all_reduce, algorithm, size, count);
        simulation.shape.averaging = Averaging::weighted;
        simulation.means = true;
        for (const Limits& limits : kLimits) {
          simulation.shape = with(simulation.shape, limits);
          hold(simulation, runs);
        }
        simulation.means = false;
        simulation.shape.averaging = Averaging::divide;
        hold(simulation, runs);
        simulation.shape.fold_pairwise = true;
        hold(simulation, runs);
      }
  CHECK(runs > 300);
}

/// Ranks on hosts: how many each holds; dealt out one by one, or host after host.
std::vector<std::uint32_t> places_of(std::vector<int> ranks_of_host, bool dealt) {
  std::vector<std::uint32_t> places, lowest(ranks_of_host.size());
  const std::vector<int> all = ranks_of_host;
  const int size = std::accumulate(all.begin(), all.end(), 0);
  for (std::size_t host = 0; std::ssize(places) < size;) {
    if (ranks_of_host[host] > 0) {
      if (ranks_of_host[host] == all[host]) lowest[host] = static_cast<std::uint32_t>(places.size());
      places.push_back(lowest[host]);
      --ranks_of_host[host];
    }
    if (dealt || ranks_of_host[host] == 0) host = (host + 1) % all.size();
  }
  return places;
}

const std::vector<std::vector<int>> kHosts{{2, 2}, {2, 1},    {1, 2},    {3, 3},       {4, 1},      {1, 4},
                                           {5, 3}, {2, 2, 2}, {3, 1, 2}, {1, 1, 2, 1}, {4, 4, 4, 4}};

TEST_CASE("hierarchical: every element is folded exactly once per rank, whoever shares a host") {
  int runs = 0;
  for (const auto& hosts : kHosts)
    for (const bool dealt : {false, true})
      for (const std::uint64_t count : {0U, 1U, 2U, 5U, 13U, 97U, 400U}) {
        const auto places = places_of(hosts, dealt);
        Shape shape =
            shape_of(Kind::all_reduce, Algorithm::hierarchical, static_cast<Rank>(places.size()), count);
        shape.places = places;
        hold_for_all_limits(shape, runs);
      }
  CHECK(runs > 1000);
}

TEST_CASE("hierarchical: averages weigh every rank alike, and division happens once") {
  int runs = 0;
  for (const auto& hosts : kHosts)
    for (const Averaging averaging : {Averaging::weighted, Averaging::divide})
      for (const std::uint64_t count : {1U, 13U, 120U}) {
        Simulation simulation;
        const auto places = places_of(hosts, count == 13);
        simulation.shape =
            shape_of(Kind::all_reduce, Algorithm::hierarchical, static_cast<Rank>(places.size()), count);
        simulation.shape.places = places;
        simulation.shape.averaging = averaging;
        simulation.means = averaging == Averaging::weighted;
        for (const Limits& limits : kLimits) {
          simulation.shape = with(simulation.shape, limits);
          hold(simulation, runs);
        }
      }
  CHECK(runs > 200);
}

TEST_CASE(
    "hierarchical: 2 (H-1) / H of the vector leaves and enters each host, and no rank drives much more than "
    "its share") {
  for (const auto& hosts : kHosts) {
    const auto places = places_of(hosts, false);
    Shape shape =
        shape_of(Kind::all_reduce, Algorithm::hierarchical, static_cast<Rank>(places.size()), 120'000);
    shape.places = places;
    shape.segment_bytes = 4096;
    REQUIRE(can_run(shape));
    const std::uint64_t bytes = shape.count * shape.element_bytes, count = hosts.size();
    std::vector<std::uint64_t> leaving(places.size(), 0), entering(places.size(), 0);
    for (Rank rank = 0; rank < shape.size; ++rank) {
      shape.rank = rank;
      const std::uint32_t place = places[static_cast<std::size_t>(rank)];
      const Schedule schedule = make_schedule(shape);
      std::uint64_t driven = 0;
      for (const Move& move : schedule.moves) {
        std::uint64_t moved = 0;
        for (const Extent& extent : schedule.view(move.local)) moved += extent.bytes;
        if (places[static_cast<std::size_t>(move.peer)] == place || moved == kTokenBytes) continue;
        (move.verb == Verb::send ? leaving : entering)[place] += moved;
        if (move.verb == Verb::send) driven += moved;
      }
      const auto here = static_cast<std::uint64_t>(std::ranges::count(places, place));
      const auto slices = static_cast<std::uint64_t>(*std::ranges::max_element(hosts));
      CHECK(driven <= (2 * (count - 1) * bytes / count) * pieces_for(slices, here) / slices + 4096);
    }
    for (std::size_t rank = 0; rank < places.size(); ++rank) {
      if (places[rank] != rank) continue;
      INFO("host of rank " << rank);
      CHECK(leaving[rank] <= 2 * (count - 1) * bytes / count + 8192);
      CHECK(leaving[rank] + 8192 >= 2 * (count - 1) * bytes / count);
      CHECK(entering[rank] <= 2 * (count - 1) * bytes / count + 8192);
    }
  }
}

TEST_CASE("reduce-scatter and all-gather with equal and with uneven counts") {
  int runs = 0;
  for (const Kind kind : {Kind::reduce_scatter, Kind::all_gather})
    for (const Algorithm algorithm : {Algorithm::ring, Algorithm::circulant, Algorithm::one_shot})
      for (Rank size = 1; size <= 9; ++size)
        for (const std::uint64_t count : {0U, 1U, 3U, 14U}) {
          Shape shape = shape_of(kind, algorithm, size, count);
          hold_for_all_limits(shape, runs);
          shape.counts = uneven(size, 14, kSeed + count + static_cast<std::uint64_t>(size));
          hold_for_all_limits(shape, runs);
        }
  CHECK(runs > 1000);
}

TEST_CASE("rooted collectives, for every root") {
  int runs = 0;
  for (const Kind kind : {Kind::broadcast, Kind::reduce, Kind::gather, Kind::scatter})
    for (const Algorithm algorithm : {Algorithm::tree, Algorithm::ring, Algorithm::linear})
      for (Rank size = 1; size <= 7; ++size)
        for (Rank root = 0; root < size; ++root)
          for (const std::uint64_t count : {0U, 1U, 13U}) {
            Shape shape = shape_of(kind, algorithm, size, count);
            shape.root = root;
            hold_for_all_limits(shape, runs);
            if (kind != Kind::gather && kind != Kind::scatter) continue;
            shape.counts = uneven(size, 5, kSeed + static_cast<std::uint64_t>(root));
            hold_for_all_limits(shape, runs);
          }
  CHECK(runs > 1500);
}

TEST_CASE("reduce averages by weight and by division") {
  int runs = 0;
  for (const Algorithm algorithm : {Algorithm::tree, Algorithm::ring})
    for (const Rank size : {2, 3, 5, 8, 11})
      for (const bool weighted : {true, false}) {
        Simulation simulation;
        simulation.shape = with(shape_of(Kind::reduce, algorithm, size, 13), kLimits[0]);
        simulation.shape.root = size / 2;
        simulation.shape.averaging = weighted ? Averaging::weighted : Averaging::divide;
        simulation.means = weighted;
        hold(simulation, runs);
      }
  CHECK(runs == 20);
}

TEST_CASE("all-to-all with equal and with uneven counts, barrier") {
  int runs = 0;
  for (Rank size = 1; size <= 9; ++size) {
    for (const Algorithm algorithm : {Algorithm::one_shot, Algorithm::linear})
      for (const std::uint64_t count : {0U, 1U, 7U}) {
        Simulation simulation;
        simulation.shape = with(shape_of(Kind::all_to_all, algorithm, size, count), kLimits[0]);
        hold(simulation, runs);
      }
    Simulation counted;
    counted.shape = shape_of(Kind::all_to_all, Algorithm::linear, size, 0);
    const auto n = static_cast<std::size_t>(size);
    counted.by_rank.assign(n, counted.shape);
    for (Rank from = 0; from < size; ++from) {
      const auto counts = uneven(size, 9, kSeed + static_cast<std::uint64_t>(from));
      counted.by_rank[static_cast<std::size_t>(from)].counts = counts;
      for (std::size_t to = 0; to < n; ++to) {
        counted.by_rank[to].receive_counts.resize(n);
        counted.by_rank[to].receive_counts[static_cast<std::size_t>(from)] = counts[to];
      }
    }
    hold(counted, runs);
    Simulation barrier;
    barrier.shape = shape_of(Kind::barrier, Algorithm::linear, size, 0);
    hold(barrier, runs);
  }
  CHECK(runs > 60);
}

TEST_CASE("ring and chain in any order of the ranks") {
  int runs = 0;
  std::mt19937_64 random(kSeed);
  for (const Kind kind :
       {Kind::all_reduce, Kind::reduce_scatter, Kind::all_gather, Kind::broadcast, Kind::reduce})
    for (Rank size = 2; size <= 7; ++size)
      for (Rank root = 0; root < size; root += 2) {
        Shape shape = shape_of(kind, Algorithm::ring, size, 29);
        shape.root = root;
        shape.order.resize(static_cast<std::size_t>(size));
        std::iota(shape.order.begin(), shape.order.end(), 0);
        std::ranges::shuffle(shape.order, random);
        hold_for_all_limits(shape, runs);
      }
  CHECK(runs > 500);
}

TEST_CASE("larger sizes, now and then") {
  int runs = 0;
  for (const Rank size : {12, 16, 17, 24, 33})
    for (const Algorithm algorithm : kReducing)
      for (const std::uint64_t count : {1U, 40U, 333U}) {
        Simulation simulation;
        simulation.shape = with(shape_of(Kind::all_reduce, algorithm, size, count), kLimits[0]);
        hold(simulation, runs);
        simulation.shape = with(shape_of(Kind::reduce_scatter, algorithm, size, count / 10), kLimits[0]);
        hold(simulation, runs);
      }
  CHECK(runs > 60);
}

TEST_CASE("circulant skips reach every rank in ceil(log2 size) rounds, for sizes 2 to 130") {
  for (Rank size = 2; size <= 130; ++size) {
    const std::vector<Rank> skips = circulant_skips(size);
    Rank rounds = 0;
    while ((1 << rounds) < size) ++rounds;
    REQUIRE(static_cast<Rank>(skips.size()) == rounds);
    REQUIRE(skips.back() == 1);
    // Folding backwards: block i is the sum of the sets that the rounds bring together; all size ranks
    // exactly once.
    std::vector<std::multiset<Rank>> behind(static_cast<std::size_t>(size), {0});
    Rank upper = size;
    for (const Rank lower : skips) {
      REQUIRE(upper - lower <= lower);
      for (Rank i = 0; i < upper - lower; ++i)
        for (const Rank distance : behind[static_cast<std::size_t>(lower + i)])
          behind[static_cast<std::size_t>(i)].insert(distance + lower);
      upper = lower;
    }
    REQUIRE(behind[0].size() == static_cast<std::size_t>(size));
    REQUIRE(std::set<Rank>(behind[0].begin(), behind[0].end()).size() == static_cast<std::size_t>(size));
  }
}

TEST_CASE("the volume per rank is what the cost formulas say") {
  for (const Rank size : {2, 3, 4, 7, 8})
    for (const Algorithm algorithm : kReducing) {
      Simulation simulation;
      const auto n = static_cast<std::uint64_t>(size);
      simulation.shape = shape_of(Kind::all_reduce, algorithm, size, 40 * n);
      simulation.shape.max_slices = 64;
      const auto outcome = simulation.run(simulation.schedules());
      REQUIRE(outcome.fault == "");
      const std::uint64_t vector_bytes = 40 * n * 8;
      INFO(describe(simulation.shape));
      for (const std::uint64_t sent : outcome.bytes_sent) {
        if (algorithm == Algorithm::ring || algorithm == Algorithm::circulant)
          CHECK(sent == 2 * (n - 1) * 40 * 8);
        if (algorithm == Algorithm::one_shot) CHECK(sent == (n - 1) * vector_bytes);
        if (algorithm == Algorithm::recursive_doubling && size == 8) CHECK(sent == 3 * vector_bytes);
      }
    }
}

TEST_CASE("ranks agree before data is written only where they would not hear from all anyway") {
  Shape shape = shape_of(Kind::all_reduce, Algorithm::ring, 4, 1000);
  CHECK_FALSE(make_schedule(shape).agrees_first);
  shape.scratch_limit_bytes = 64;
  CHECK(make_schedule(shape).agrees_first);
  shape.size = 2;
  CHECK_FALSE(make_schedule(shape).agrees_first);
  shape = shape_of(Kind::broadcast, Algorithm::tree, 2, 10);
  CHECK(make_schedule(shape).agrees_first);
}

TEST_CASE("a wrong chunk, a wrong offset, a dropped hop and a too wide window do not go unseen") {
  Simulation simulation;
  simulation.shape = shape_of(Kind::all_reduce, Algorithm::ring, 5, 83);
  simulation.shape.segment_bytes = 24;
  simulation.shape.window = 3;
  REQUIRE(simulation.verdict() == "");
  std::mt19937_64 random(kSeed);
  for (int trial = 0; trial < 200; ++trial) {
    auto schedules = simulation.schedules();
    Schedule& broken = schedules[random() % schedules.size()];
    const std::size_t victim = random() % broken.moves.size();
    const Run local = broken.moves[victim].local;
    if (trial % 4 == 0) broken.extents[local.first].offset += 8;
    if (trial % 4 == 1)
      broken.extents[local.first].offset = broken.extents[local.first].offset >= 8 * 17 ? 0 : 8 * 17;
    if (trial % 4 == 2) broken.moves[victim].peer = (broken.moves[victim].peer + 1) % 5;
    if (trial % 4 == 3) {
      auto step = std::ranges::find_if(broken.steps, [&](const Step& s) {
        return s.moves.first <= victim && victim < s.moves.first + s.moves.count;
      });
      --step->moves.count;  // its last move is never posted
    }
    INFO("trial " << trial << " seed " << kSeed);
    CHECK(simulation.verdict(schedules) != "");
  }
}

TEST_CASE("a window wider than the segments of a chunk is caught as a hazard") {
  Simulation simulation;
  simulation.shape = shape_of(Kind::all_reduce, Algorithm::ring, 4, 64);
  simulation.shape.segment_bytes = 64;
  simulation.shape.window = 2;
  auto schedules = simulation.schedules();
  REQUIRE(simulation.verdict(schedules) == "");
  for (Schedule& schedule : schedules) {
    for (std::uint32_t k = 0; k < schedule.steps.size(); ++k) schedule.steps[k].after = k > 4 ? k - 4 : 0;
    schedule.steps_in_flight = 5;
  }
  int caught = 0;
  for (simulation.seed = 1; simulation.seed <= 20; ++simulation.seed)
    caught += simulation.verdict(schedules) != "";
  CHECK(caught == 20);
}

}  // namespace
}  // namespace rondel::test
