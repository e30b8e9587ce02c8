// SPDX-License-Identifier: Apache-2.0
#include "ring/pair_lane.h"

#include <algorithm>

#include "lib/partition.h"
#include "ring/label.h"

namespace rondel {
namespace {

// A turn at connecting, which a caller that does not want to wait may lose. What a turn began goes on after
// it.
constexpr std::chrono::milliseconds kConnectTurn{1};
constexpr std::uint64_t kLargestWorkBytes = std::uint64_t{1} << 30;

/// The same on both sides, which know it from the length.
std::uint32_t works_for(std::uint64_t bytes, std::uint32_t at_once) {
  return static_cast<std::uint32_t>(std::min<std::uint64_t>(pieces_for(bytes, kLargestWorkBytes), at_once));
}

}  // namespace

void PairLane::enqueue(Operation& operation) {
  operation.sequence = ++begun_;
  operation.entered = 0;
  operation.label = make_label(operation.request, operation.sequence);
  operation.bytes_before = endpoint_->bytes_received();
  const std::uint64_t bytes = operation.footprint.input_bytes + operation.footprint.output_bytes;  // one is 0
  runs_.push_back({&operation, works_for(bytes, endpoint_->capabilities().max_in_flight)});
  ++waiting_;
}

Operation& PairLane::most_urgent() {
  return *std::ranges::min_element(runs_, {}, [](const Run& run) {
            return run.operation->deadline().when();
          })->operation;
}

Status PairLane::advance() {
  RONDEL_TRY(post_waiting());
  std::erase_if(runs_, [this](const Run& run) {
    if (!run.posted || !run.operation->moved.done()) return false;
    direction_of(run).in_flight -= run.works;
    run.operation->finish({});
    return true;
  });
  return {};
}

Status PairLane::post_waiting() {
  connecting_ = false;
  if (waiting_ == 0) return {};
  for (const Run& run : runs_) {
    peer_of(run).tried = false;
    direction_of(run).held_up = false;
  }
  for (Run& run : runs_) {
    if (run.posted) continue;
    Direction& way = direction_of(run);
    if (way.held_up) continue;
    const auto posted = post(run, way);
    RONDEL_TRY(posted);
    way.held_up = !*posted;
  }
  return {};
}

Result<bool> PairLane::post(Run& run, Direction& way) {
  if (way.in_flight + run.works > endpoint_->capabilities().max_in_flight) return false;
  if (!peer_of(run).connected) {
    auto connected = connect(run);
    if (!connected.ok() || !*connected) return connected;
  }
  RONDEL_TRY(run.operation->bind(known_memory, nullptr));
  build_works(run);
  run.operation->moved.arm(run.works);
  RONDEL_TRY(endpoint_->post(works_, {}));
  way.in_flight += run.works;
  run.posted = true;
  --waiting_;
  return true;
}

Result<bool> PairLane::connect(const Run& run) {
  Peer& peer = peer_of(run);
  const Rank number = run.operation->request.root;
  if (!std::exchange(peer.tried, true)) {
    // One turn for all that are missing in this look.
    const Deadline turn = Deadline::in(connecting_ ? std::chrono::milliseconds::zero() : kConnectTurn);
    const Status tried =
        endpoint_->connect(addresses_, {&number, 1}, turn.or_before(run.operation->deadline()));
    if (!tried.ok() && tried.code() != Code::timed_out) return tried;
    peer.connected = tried.ok();
  }
  connecting_ |= !peer.connected;
  return peer.connected;
}

void PairLane::build_works(const Run& run) {
  const CollectiveRequest& request = run.operation->request;
  const Slice whole = run.operation->lent();
  slices_.clear();
  works_.clear();
  for (std::uint32_t i = 0; i < run.works; ++i) {
    const Range bytes = part_of(whole.bytes, run.works, i);
    slices_.push_back({whole.region, whole.offset + bytes.begin, bytes.count});
  }
  for (const Slice& slice : slices_)
    works_.push_back({.verb = request.kind == CollectiveKind::send ? Verb::send : Verb::recv,
                      .peer = request.root,
                      .local = {&slice, slice.bytes > 0 ? 1U : 0U},
                      .other = {},
                      .reduction = {},
                      .label = run.operation->label,
                      .done = &run.operation->moved});
}

void PairLane::fail(const Status& failure) {
  for (const Run& run : runs_) run.operation->finish(failure);
  runs_.clear();
  waiting_ = 0;
}

}  // namespace rondel
