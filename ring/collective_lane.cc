// SPDX-License-Identifier: Apache-2.0
#include "ring/collective_lane.h"

#include <utility>

#include "ring/bootstrap.h"
#include "ring/label.h"

namespace rondel {

CollectiveLane::CollectiveLane(Endpoint* endpoint, std::span<const Bytes> addresses, Rank rank, Rank size,
                               Planner& planner, Health& health, std::chrono::nanoseconds timeout)
    : known_memory(endpoint),
      endpoint_(endpoint),
      addresses_(addresses),
      size_(size),
      planner_(planner),
      health_(health),
      timeout_(timeout),
      agreement_(make_agreement(rank, size)),
      collective_(endpoint) {
  if (endpoint_ != nullptr) scratch_.emplace(*endpoint_);
}

Status CollectiveLane::advance() {
  while (!queue_.empty()) {
    if (phase_ == Phase::idle) RONDEL_TRY(begin_next());
    RONDEL_TRY(collective_.advance());
    if (!collective_.done()) return {};
    Operation& operation = current();
    if (phase_ == Phase::agreeing) {
      RONDEL_TRY(connect_peers(operation));
      RONDEL_TRY(begin_schedule(operation));
      continue;
    }
    operation.finish({});
    queue_.pop_front();
    phase_ = Phase::idle;
  }
  return {};
}

Status CollectiveLane::begin_next() {
  Operation& operation = current();
  health_.watch().enter();
  operation.entered = health_.watch().entered();
  operation.sequence = ++begun_;
  operation.deadline = Deadline::in(timeout_);
  operation.label = make_label(operation.request, operation.sequence);
  if (endpoint_ == nullptr) return begin_schedule(operation);
  operation.bytes_before = endpoint_->bytes_received();
  return connected_patterns_.contains(operation.plan->pattern) ? begin_schedule(operation)
                                                               : begin_agreement(operation);
}

Status CollectiveLane::begin_agreement(Operation& operation) {
  auto scratch = scratch_->hold(agreement_.scratch_bytes);
  RONDEL_TRY(scratch);
  Binding binding;
  binding.memory[static_cast<std::size_t>(Place::scratch)] = *scratch;
  binding.label = operation.label;
  collective_.begin(agreement_, binding);
  phase_ = Phase::agreeing;
  return {};
}

Status CollectiveLane::connect_peers(const Operation& operation) {
  const std::vector<Rank> peers = planner_.peers_of(*operation.plan);
  RONDEL_TRY(connect_watched(*endpoint_, addresses_, peers, health_.watch(), operation.deadline));
  connected_patterns_.insert(operation.plan->pattern);
  return {};
}

Status CollectiveLane::begin_schedule(Operation& operation) {
  const Registration* scratch = nullptr;
  if (endpoint_ != nullptr && operation.plan->schedule.scratch_bytes > 0) {
    auto held = scratch_->hold(operation.plan->schedule.scratch_bytes);
    RONDEL_TRY(held);
    scratch = *held;
  }
  RONDEL_TRY(operation.bind(known_memory, scratch));
  collective_.begin(operation.plan->schedule, operation.binding(size_));
  phase_ = Phase::running;
  return {};
}

void CollectiveLane::fail(const Status& failure) {
  for (Operation* operation : std::exchange(queue_, {})) operation->finish(failure);
  phase_ = Phase::idle;
}

}  // namespace rondel
