// SPDX-License-Identifier: Apache-2.0
// JobHold: one rank's part in a job, shared by its communicators; the last of them ends it. Where rank 0
// serves the meeting point, it stays until the other ranks have said goodbye, died, or used up the operation
// timeout (two seconds once the job has failed, half a second when its start has), because without it they
// could not tell a death from an end. Its communicators' threads, one at a time.
#pragma once

#include <algorithm>
#include <chrono>
#include <functional>
#include <memory>
#include <string>

#include "bindings/c/meeting_point.h"
#include "lib/config.h"
#include "lib/liveness/member.h"
#include "lib/store/tcp_server.h"
#include "ring/communicator.h"

namespace rondel::c {

/// How a rank came to its job's meeting point. A job of one rank has neither store nor server.
struct Entry {
  Rank rank = 0;
  Rank size = 1;
  std::string name = "world";  ///< of the first communicator; unique in the store
  MeetingPoint point;
  std::unique_ptr<Store> store;
  bool served_by_rank_0 = false;          ///< no launcher: the meeting point lives in rank 0's process
  std::unique_ptr<TcpServer> server;      ///< there, and only there
  std::function<void()> clear_away = {};  ///< what led the others to it, once the job is over; may be empty
};

class JobHold {
 public:
  /// Connects liveness and opens the transports.
  static Result<std::shared_ptr<JobHold>> create(const Config& config, Entry entry, Deadline deadline);
  ~JobHold();
  JobHold(const JobHold&) = delete;
  JobHold& operator=(const JobHold&) = delete;

  const std::shared_ptr<Job>& job() const { return job_; }
  /// The first communicator is there: from now on the end of this rank concerns the others. Liveness counts
  /// ranks as in the first communicator that a member joins, so that this comes after it.
  void started();
  /// A communicator of the job failed: nobody waits long for the goodbyes of ranks that may never say them.
  void failed() { patience_ = std::min(patience_, kPatienceAfterFailure); }

 private:
  // Long enough for the verdict to reach every rank that still listens.
  static constexpr std::chrono::milliseconds kPatienceAfterFailure{2'000};

  /// For the ranks that came to a start that failed.
  static constexpr std::chrono::milliseconds kPatienceInStart{500};

  JobHold() = default;
  void say_goodbye();
  void await_goodbyes();

  std::unique_ptr<TcpServer> server_;  // outlives every connection to it
  std::shared_ptr<Job> job_;
  std::shared_ptr<liveness::Watch> presence_;  // once started, when rank 0 serves the meeting point
  Rank rank_ = 0;
  Rank size_ = 1;
  std::chrono::milliseconds patience_{0};
  bool served_by_rank_0_ = false;
  std::function<void()> clear_away_;
};

/// A failure to reach the meeting point, as `rank` reports it: where rank 0 serves it, rank 0 is to blame for
/// its silence.
Status without_meeting_point(Status failed, Rank rank, bool served_by_rank_0);

struct Started {
  std::shared_ptr<JobHold> hold;
  std::unique_ptr<Communicator> communicator;
};
/// The rest of a start, once the meeting point is reached: liveness, transports, the communicator of all
/// ranks.
Result<Started> start_job(const Config& config, Entry entry, Deadline deadline);

}  // namespace rondel::c
