// SPDX-License-Identifier: Apache-2.0
// The inside of a Communicator: its endpoints, the two lanes that run operations over them, and the wait loop
// that moves both while it watches deadlines and alarms. Owned by its Communicator; driver thread only,
// except abort() and failure().
#pragma once

#include <array>
#include <chrono>
#include <cstdint>
#include <map>
#include <memory>
#include <optional>
#include <string>

#include "lib/readiness.h"
#include "lib/unique_fd.h"
#include "ring/bootstrap.h"
#include "ring/collective_lane.h"
#include "ring/communicator.h"
#include "ring/health.h"
#include "ring/pair_lane.h"
#include "ring/planner.h"

namespace rondel {

struct Communicator::Body {
  Body(std::shared_ptr<Job> shared_job, CommunicatorOptions own_options,
       std::shared_ptr<liveness::Watch> joined, Attachment made, std::optional<Algorithm> algorithm);
  ~Body();

  Status run(const CollectiveRequest& request);
  Result<OperationId> start(const CollectiveRequest& request);
  Status progress(std::chrono::nanoseconds may_block_for);
  bool done(OperationId id) const;
  Status wait(OperationId id, Deadline deadline);
  Result<int> wait_descriptor(bool ready);
  Result<std::uint64_t> remember_memory(MemorySpan memory);
  void forget_memory(std::uint64_t name);

  /// `watch` and `exchange` are null for a single rank.
  static Result<std::unique_ptr<Communicator>> build(std::shared_ptr<Job> job, CommunicatorOptions options,
                                                     std::shared_ptr<liveness::Watch> watch,
                                                     Exchange* exchange, Deadline deadline);

  const std::shared_ptr<Job> job;
  const CommunicatorOptions options;
  Attachment attachment;
  Health health;
  std::uint64_t children = 0;
  std::uint64_t sent_before = 0;  // by calibration, of the data endpoint
  std::uint64_t received_before = 0;

 private:
  /// `wanted`: what the caller is about to do, for the error text; may be null.
  Status check_usable(const CollectiveRequest* wanted = nullptr);
  std::uint64_t next_number(CollectiveKind kind) const;
  void enqueue(Operation& operation);
  Status run_to_end(const Operation& operation, Deadline deadline);
  /// Waits up to `may_block_for` for something to move, then does what can be done.
  Status turn(std::chrono::nanoseconds may_block_for);
  Status after_alarm(const Result<std::size_t>& finished);
  Status advance();
  Result<std::size_t> progress_endpoints(std::chrono::nanoseconds may_block_for);
  Result<std::size_t> progress_both(std::chrono::nanoseconds may_block_for);
  Status check_deadlines();
  Status time_out(const Operation& operation, Rank peer);
  Status fail(const Status& status, const Operation* operation = nullptr);
  Status fail_with(const Status& verdict, const Operation* operation);
  const Operation* affected_operation();
  Status make_descriptor();
  bool connecting() const { return collectives_.connecting() || pairs_.connecting(); }
  std::chrono::nanoseconds next_look();
  void set_clock(std::chrono::nanoseconds in);

  Planner planner_;
  CollectiveLane collectives_;
  PairLane pairs_;
  Operation direct_;  // of run()
  std::map<OperationId, std::unique_ptr<Operation>> started_;
  OperationId last_id_ = 0;
  std::uint64_t last_memory_ = 0;
  std::optional<Readiness> readiness_;  // over both endpoints and the clock; made when it is asked for
  std::array<std::uint32_t, 2> watched_{};
  UniqueFd clock_;
  int turns_ = 0;
  std::optional<Deadline> drain_until_;  // once alarmed
};

}  // namespace rondel
