// SPDX-License-Identifier: Apache-2.0
#include "ring/planner.h"

#include <algorithm>

#include "lib/log.h"

namespace rondel {
namespace {

Averaging averaging_of(const CollectiveRequest& request) {
  if (!reduces(request.kind) || request.op != ReduceOp::average) return Averaging::none;
  return is_half(request.type) ? Averaging::weighted : Averaging::divide;
}

/// Ranks need not agree on a root that their collective has no use for.
Rank root_of(const CollectiveRequest& request) { return has_root(request.kind) ? request.root : 0; }

}  // namespace

bool Planner::matches(const Plan& plan, const CollectiveRequest& request, bool in_place) const {
  const Shape& shape = plan.shape;
  return shape.kind == request.kind && shape.count == request.count && shape.in_place == in_place &&
         shape.root == root_of(request) && plan.type == request.type &&
         (!reduces(request.kind) || plan.op == request.op) &&
         std::ranges::equal(shape.counts, request.counts) &&
         std::ranges::equal(shape.receive_counts, request.receive_counts);
}

std::shared_ptr<const Plan> Planner::plan_for(const CollectiveRequest& request, bool in_place) {
  for (std::size_t i = 0; i < recent_.size(); ++i) {
    if (!matches(*recent_[i], request, in_place)) continue;
    if (i > 0)
      std::rotate(recent_.begin(), recent_.begin() + static_cast<std::ptrdiff_t>(i),
                  recent_.begin() + static_cast<std::ptrdiff_t>(i) + 1);
    return recent_.front();
  }
  auto plan = make(request, in_place);
  recent_.insert(recent_.begin(), plan);
  std::size_t steps = 0, kept = 0;
  for (; kept < recent_.size() && kept < kPlansKept; ++kept) {
    steps += recent_[kept]->schedule.steps.size();
    if (steps > kStepsKept) break;
  }
  recent_.resize(std::max<std::size_t>(1, kept));
  return plan;
}

std::shared_ptr<const Plan> Planner::make(const CollectiveRequest& request, bool in_place) const {
  auto plan = std::make_shared<Plan>();
  plan->type = request.type;
  plan->op = request.op;
  Shape& shape = plan->shape;
  shape.kind = request.kind;
  shape.rank = rank_;
  shape.size = size_;
  shape.root = root_of(request);
  shape.in_place = in_place;
  shape.averaging = averaging_of(request);
  shape.element_bytes = static_cast<std::uint32_t>(size_of(request.type));
  shape.count = request.count;
  shape.counts.assign(request.counts.begin(), request.counts.end());
  shape.receive_counts.assign(request.receive_counts.begin(), request.receive_counts.end());
  shape.places = places_;
  tuning_.choose(shape, request.type, request.op);
  if (shape.algorithm == Algorithm::ring) shape.order = order_;
  if (shape.algorithm != Algorithm::hierarchical) shape.places.clear();
  plan->schedule = make_schedule(shape);
  log(LogLevel::debug, "{} by {}: {} steps, {} in flight, segments of {} bytes, {} bytes of scratch{}",
      describe(request), name_of(shape.algorithm), plan->schedule.steps.size(),
      plan->schedule.steps_in_flight, shape.segment_bytes, plan->schedule.scratch_bytes,
      plan->schedule.agrees_first ? ", agrees first" : "");
  plan->pattern = static_cast<std::uint64_t>(shape.kind) << 40 |
                  static_cast<std::uint64_t>(shape.algorithm) << 32 | static_cast<std::uint32_t>(shape.root);
  return plan;
}

std::vector<Rank> Planner::peers_of(const Plan& plan) const {
  Shape typical = plan.shape;
  // No part of it is empty. Slices times hosts are at most the square of the ranks.
  typical.count = static_cast<std::uint64_t>(size_);
  if (typical.algorithm == Algorithm::hierarchical) typical.count *= typical.count;
  typical.scratch_limit_bytes = std::uint64_t{1} << 62;
  typical.counts.clear();
  typical.receive_counts.clear();
  typical.in_place = false;
  std::vector<Rank> peers = plan.schedule.peers;
  const Schedule schedule = make_schedule(typical);
  peers.insert(peers.end(), schedule.peers.begin(), schedule.peers.end());
  std::ranges::sort(peers);
  peers.erase(std::unique(peers.begin(), peers.end()), peers.end());
  return peers;
}

}  // namespace rondel
