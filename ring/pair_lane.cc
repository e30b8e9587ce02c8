// SPDX-License-Identifier: Apache-2.0
#include "ring/pair_lane.h"

#include <algorithm>

#include "ring/label.h"

namespace rondel {
namespace {

// The smaller rank of a pair reaches out, the larger one only looks whether it has been reached.
constexpr std::chrono::milliseconds kReach{1000};
constexpr std::chrono::milliseconds kLook{1};

std::uint32_t works_of(const Operation& operation) { return operation.plan->schedule.moves_per_step; }

}  // namespace

void PairLane::enqueue(Operation& operation) {
  operation.deadline();  // counts from now
  operation.sequence = ++begun_;
  operation.entered = 0;
  operation.label = make_label(operation.request, operation.sequence);
  operation.bytes_before = endpoint_->bytes_received();
  runs_.push_back({&operation, nullptr});
}

Operation& PairLane::most_urgent() {
  return *std::ranges::min_element(runs_, {}, [](const Run& run) {
            return run.operation->deadline().when();
          })->operation;
}

std::unique_ptr<Collective> PairLane::spare() {
  if (spares_.empty()) return std::make_unique<Collective>(endpoint_);
  auto collective = std::move(spares_.back());
  spares_.pop_back();
  return collective;
}

Result<bool> PairLane::connect(Rank peer, Deadline deadline) {
  if (connected_.contains(peer)) return true;
  const Rank peers[] = {peer};
  const Status tried =
      endpoint_->connect(addresses_, peers, Deadline::in(rank_ < peer ? kReach : kLook).or_before(deadline));
  if (tried.code() == Code::timed_out) return false;
  RONDEL_TRY(tried);
  connected_.insert(peer);
  return true;
}

Status PairLane::post(Run& run) {
  RONDEL_TRY(run.operation->bind(known_memory, nullptr));
  run.collective = spare();
  run.collective->begin(run.operation->plan->schedule, run.operation->binding(2));
  run.posted = true;
  in_flight_[direction_of(*run.operation)] += works_of(*run.operation);
  return {};
}

Status PairLane::advance() {
  connecting_ = false;
  std::set<Direction> held_up;  // an earlier operation of that pair and direction is not posted yet
  std::set<Rank> tried;
  for (Run& run : runs_) {
    if (!run.posted) {
      const Direction direction = direction_of(*run.operation);
      if (held_up.contains(direction)) continue;
      if (in_flight_[direction] + works_of(*run.operation) > endpoint_->capabilities().max_in_flight) {
        held_up.insert(direction);
        continue;
      }
      if (connected_.contains(direction.first) || tried.insert(direction.first).second) {
        const auto connected = connect(direction.first, run.operation->deadline());
        RONDEL_TRY(connected);
        if (*connected) RONDEL_TRY(post(run));
      }
      if (!run.posted) {
        connecting_ = true;
        held_up.insert(direction);
        continue;
      }
    }
    RONDEL_TRY(run.collective->advance());
  }
  std::erase_if(runs_, [this](Run& run) {
    if (!run.posted || !run.collective->done()) return false;
    in_flight_[direction_of(*run.operation)] -= works_of(*run.operation);
    spares_.push_back(std::move(run.collective));
    run.operation->finish({});
    return true;
  });
  return {};
}

void PairLane::fail(const Status& failure) {
  for (Run& run : runs_) run.operation->finish(failure);
  runs_.clear();
}

}  // namespace rondel
