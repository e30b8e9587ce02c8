// SPDX-License-Identifier: Apache-2.0
// Planner: turns a request into a schedule, and keeps the schedules of recent shapes, because training asks
// for the same shapes step after step. Owned by a communicator, driver thread only.
#pragma once

#include <cstdint>
#include <memory>
#include <vector>

#include "ring/request.h"
#include "ring/schedule.h"
#include "ring/tuning.h"

namespace rondel {

/// A schedule that has been made, with what it takes to connect for it.
struct Plan {
  Shape shape;
  DataType type = DataType::float32;
  ReduceOp op = ReduceOp::sum;
  Schedule schedule;
  /// Plans of one pattern exchange with the same peers at most, on every rank.
  std::uint64_t pattern = 0;
};

class Planner {
 public:
  /// `order`: round the ring; empty for by number. `places`: see Shape.
  Planner(Rank rank, Rank size, Tuning tuning, std::vector<Rank> order,
          std::vector<std::uint32_t> places = {})
      : rank_(rank), size_(size), tuning_(tuning), order_(std::move(order)), places_(std::move(places)) {}

  /// The plan for a request that check_request() has passed. Shared, so that it survives being forgotten
  /// here.
  std::shared_ptr<const Plan> plan_for(const CollectiveRequest& request, bool in_place);

  /// Everybody that this rank may exchange with in plans of that pattern.
  std::vector<Rank> peers_of(const Plan& plan) const;

 private:
  bool matches(const Plan& plan, const CollectiveRequest& request, bool in_place) const;
  std::shared_ptr<const Plan> make(const CollectiveRequest& request, bool in_place) const;

  static constexpr std::size_t kPlansKept = 32;
  static constexpr std::size_t kStepsKept = 65536;

  const Rank rank_;
  const Rank size_;
  const Tuning tuning_;
  const std::vector<Rank> order_;
  const std::vector<std::uint32_t> places_;
  std::vector<std::shared_ptr<const Plan>> recent_;  // most recent first
};

}  // namespace rondel
