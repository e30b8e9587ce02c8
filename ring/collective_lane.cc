// SPDX-License-Identifier: Apache-2.0
#include "ring/collective_lane.h"

#include <numeric>
#include <utility>

#include "ring/label.h"

namespace rondel {
namespace {

// A turn at connecting, which a caller that does not want to wait may lose. What a turn began goes on after
// it.
constexpr std::chrono::milliseconds kConnectTurn{5};

}  // namespace

CollectiveLane::CollectiveLane(Endpoint* endpoint, std::span<const Bytes> addresses, Rank rank, Rank size,
                               Planner& planner, Health& health, bool direct)
    : known_memory(endpoint),
      endpoint_(endpoint),
      addresses_(addresses),
      rank_(rank),
      size_(size),
      planner_(planner),
      health_(health),
      agreement_(make_agreement(rank, size)),
      collective_(endpoint) {
  if (endpoint_ == nullptr) return;
  scratch_.emplace(*endpoint_);
  if (direct && size <= Direct::kMostRanks && endpoint_->load_store() != nullptr)
    direct_.emplace(*endpoint_->load_store(), rank, size);
}

Status CollectiveLane::advance() {
  while (!queue_.empty()) {
    if (phase_ == Phase::idle) RONDEL_TRY(begin_next());
    const auto done = advance_current();
    RONDEL_TRY(done);
    if (!*done) return {};
    current().finish({});
    queue_.pop_front();
    phase_ = Phase::idle;
  }
  return {};
}

Result<bool> CollectiveLane::advance_current() {
  for (;;) {
    if (phase_ == Phase::connecting) {
      auto connected = advance_connecting();
      if (!connected.ok() || !*connected) return connected;
    }
    if (phase_ == Phase::direct) {
      auto done = advance_direct();
      if (!done.ok() || *done || phase_ == Phase::direct) return done;
    }
    RONDEL_TRY(collective_.advance());
    if (!collective_.done() || phase_ != Phase::agreeing) return collective_.done();
    begin_connecting(current());
  }
}

/// Whether the operation is done; if not, it waits, or goes on with messages.
Result<bool> CollectiveLane::advance_direct() {
  const auto state = direct_->advance();
  RONDEL_TRY(state);
  if (*state == Direct::State::declined) RONDEL_TRY(begin_messages(current()));
  return *state == Direct::State::done;
}

Status CollectiveLane::begin_next() {
  Operation& operation = current();
  health_.watch().enter();
  operation.entered = health_.watch().entered();
  operation.sequence = ++begun_;
  operation.label = make_label(operation.request, operation.sequence);
  if (endpoint_ == nullptr) return begin_messages(operation);
  operation.bytes_before = endpoint_->bytes_received();
  if (!wants_direct(operation)) {
    if (direct_) direct_->note_elsewhere(operation);
    return begin_messages(operation);
  }
  if (!direct_->is_open()) return begin_agreement(operation);
  begin_direct(operation);
  return {};
}

bool CollectiveLane::wants_direct(const Operation& operation) const {
  return direct_ && Direct::runs(operation.request);
}

void CollectiveLane::begin_direct(Operation& operation) {
  direct_->begin(operation);
  phase_ = Phase::direct;
}

Status CollectiveLane::begin_messages(Operation& operation) {
  operation.plan = planner_.plan_for(operation.request, operation.footprint.in_place);
  const bool ready = endpoint_ == nullptr || connected_patterns_.contains(operation.plan->pattern);
  return ready ? begin_schedule(operation) : begin_agreement(operation);
}

/// All ranks mean the operation that begins: now they may wait for one another.
void CollectiveLane::begin_connecting(const Operation& operation) {
  phase_ = Phase::connecting;
  if (operation.plan != nullptr) {
    peers_ = planner_.peers_of(*operation.plan);
    return;
  }
  peers_.resize(static_cast<std::size_t>(size_));
  std::iota(peers_.begin(), peers_.end(), Rank{0});
  std::erase(peers_, rank_);
}

// In turns, because a peer may be busy with another communicator, on which it waits for this rank.
Result<bool> CollectiveLane::advance_connecting() {
  Operation& operation = current();
  const Deadline deadline = operation.deadline();
  const Status connected =
      endpoint_->connect(addresses_, peers_, Deadline::in(kConnectTurn).or_before(deadline));
  if (connected.code() == Code::timed_out && !deadline.passed()) return false;
  RONDEL_TRY(connected);
  if (operation.plan == nullptr) {
    RONDEL_TRY(direct_->open());
    begin_direct(operation);
  } else {
    connected_patterns_.insert(operation.plan->pattern);
    RONDEL_TRY(begin_schedule(operation));
  }
  return true;
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
  if (direct_) direct_->close();
  for (Operation* operation : std::exchange(queue_, {})) operation->finish(failure);
  phase_ = Phase::idle;
}

}  // namespace rondel
