// SPDX-License-Identifier: Apache-2.0
// Supervisor: decides when a job stops, how hard, and with which exit code. The first failure stops all:
// SIGTERM, a grace, SIGKILL. Pure: events and times in, decisions out; it signals and waits for nobody. One
// thread.
#pragma once

#include <chrono>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "launcher/agent_protocol.h"
#include "lib/deadline.h"
#include "lib/types.h"

namespace rondel {

inline constexpr int kTimeoutExit = 124;
inline constexpr int kLaunchFailureExit = 255;
inline constexpr int kUsageExit = 2;

class Supervisor {
 public:
  using Time = Deadline::Clock::time_point;

  struct Record {
    std::optional<Ending> ending;       ///< none while it runs
    bool stopped = false;               ///< it ended after the launcher had asked it to
    bool never_started = false;         ///< it will not run, and has no ending
    bool lost = false;                  ///< its host can not be asked any more how it ended
    std::chrono::milliseconds after{};  ///< from the job's start to its end
  };

  Supervisor(Rank ranks, std::chrono::milliseconds grace, Time start);

  /// Ranks that were found ended at the same moment, in any order. `first_fallen`: the rank whose connection
  /// to the job broke first, when one has. Others fail of its loss and may end sooner than a large process
  /// does; so when it then turns out to have failed by itself, it is the first failure.
  void ranks_ended(std::span<const RankEnding> together, Time now, std::optional<Rank> first_fallen = {});
  /// SIGINT, SIGTERM, SIGHUP or SIGQUIT came for the launcher: stop; when it comes again: kill now.
  void signalled(int signal, Time now);
  void timed_out(Time now);
  /// Standard output takes no more (EPIPE, ENOSPC, ...).
  void output_failed(int error, Time now);
  /// Those of `ranks` that have not ended could not be started.
  void launch_failed(std::span<const Rank> ranks, Time now);
  /// What became of those of `ranks` that have not ended will not be known. `first_fallen` as above.
  void host_lost(std::span<const Rank> ranks, Time now, std::optional<Rank> first_fallen = {});
  /// All ranks have ended; what they left running is to be stopped too.
  void clean_up(Time now) { stop(now); }

  /// What the job's processes are to be sent now: 0, SIGTERM or SIGKILL.
  int signal_due(Time now) const;
  /// When signal_due() turns to SIGKILL.
  std::optional<Time> kill_at() const { return kill_at_; }

  /// No rank runs, as far as is known.
  /// Whether one of `ranks` still runs, as far as is known.
  bool any_runs(std::span<const Rank> ranks) const;
  bool all_ended() const { return running_ == 0; }
  bool asked_to_stop() const { return asked_to_stop_; }
  /// Valid once all ranks have ended, or before when the job was stopped.
  int exit_code() const;
  /// The rank that failed before anything was stopped.
  std::optional<Rank> first_failed() const { return first_failed_; }
  /// first_failed() will not change any more.
  bool cause_is_known() const { return first_failed_ && !accused_; }
  std::span<const Record> records() const { return records_; }

 private:
  void stop(Time now);
  void decide(int exit_code);
  void hear_accused(Time now);
  std::vector<Record*> still_running(std::span<const Rank> ranks);

  std::vector<Record> records_;
  std::chrono::milliseconds grace_;
  Time start_;
  Rank running_;
  std::optional<Time> kill_at_;  // set from the moment at which the job is being stopped
  bool asked_to_stop_ = false;   // by a signal
  std::optional<int> exit_code_;
  std::optional<Rank> first_failed_;
  std::optional<Rank> accused_;  // fell before first_failed_ failed, and has not ended yet
};

}  // namespace rondel
