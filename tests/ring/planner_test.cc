// SPDX-License-Identifier: Apache-2.0
#include "ring/planner.h"

#include <algorithm>
#include <catch2/catch.hpp>

namespace rondel {
namespace {

CollectiveRequest all_reduce_of(std::uint64_t count) {
  CollectiveRequest request;
  request.kind = CollectiveKind::all_reduce;
  request.count = count;
  return request;
}

TEST_CASE("the same shape gets the same plan back, another shape another one") {
  Planner planner(1, 4, Tuning(), {});
  const auto first = planner.plan_for(all_reduce_of(100), false);
  const auto other = planner.plan_for(all_reduce_of(101), false);
  CHECK(planner.plan_for(all_reduce_of(100), false) == first);
  CHECK(other != first);
  CHECK(planner.plan_for(all_reduce_of(100), true) != first);
  CollectiveRequest request = all_reduce_of(100);
  request.op = ReduceOp::average;
  CHECK(planner.plan_for(request, false) != first);
  request = all_reduce_of(100);
  request.root = 2;  // an allreduce has no use for it
  CHECK(planner.plan_for(request, false) == first);
}

TEST_CASE("plans that have not been used for long are forgotten, those in use stay alive") {
  Planner planner(0, 2, Tuning(), {});
  const auto kept = planner.plan_for(all_reduce_of(1), false);
  const std::weak_ptr<const Plan> forgotten = planner.plan_for(all_reduce_of(2), false);
  for (std::uint64_t count = 10; count < 100; ++count) planner.plan_for(all_reduce_of(count), false);
  CHECK(forgotten.expired());
  CHECK(kept.use_count() == 1);
  CHECK(kept->shape.count == 1);
}

TEST_CASE("the peers of a pattern cover every count") {
  Planner planner(3, 8, Tuning(), {});
  CollectiveRequest request;
  request.kind = CollectiveKind::gather;
  request.root = 3;
  const std::vector<std::uint64_t> counts{0, 0, 0, 1, 0, 0, 0, 0};
  request.counts = counts;
  const auto plan = planner.plan_for(request, false);
  request.counts = {};
  request.count = 1;
  const auto full = planner.plan_for(request, false);
  CHECK(full->pattern == plan->pattern);
  const std::vector<Rank> peers = planner.peers_of(*plan);
  for (const Rank peer : full->schedule.peers) CHECK(std::ranges::count(peers, peer) == 1);
}

TEST_CASE("the ring runs in the order it is given") {
  Planner planner(0, 4, Tuning(Cost{}, Limits{}, Algorithm::ring, 0), {0, 2, 1, 3});
  const auto plan = planner.plan_for(all_reduce_of(1000), false);
  CHECK(plan->schedule.peers == std::vector<Rank>{2, 3});
}

}  // namespace
}  // namespace rondel
