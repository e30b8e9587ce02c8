// SPDX-License-Identifier: Apache-2.0
// Agent: starts the ranks of one host, hands over their output streams, signals them and sees how they end.
// It takes everything it needs as values (HostJob), so that it can run where the ranks are. Owned by the job;
// one thread. It decides nothing: when to stop whom is the supervisor's business.
#pragma once

#include <sys/types.h>

#include <optional>
#include <span>
#include <string>
#include <vector>

#include "launcher/environment.h"
#include "launcher/placement.h"
#include "launcher/process.h"
#include "lib/auth.h"
#include "lib/status.h"
#include "lib/unique_fd.h"

namespace rondel {

/// The part of a job that runs on one host.
struct HostJob {
  std::vector<RankPlace> ranks;
  std::vector<std::string> program;
  BaseEnvironment environment;
  JobContact contact;
  std::string directory;           ///< empty: the agent's own
  std::optional<Rank> stdin_rank;  ///< who reads the agent's standard input
  sigset_t signal_mask{};          ///< what the ranks start with
  rlimit descriptor_limit{};       ///< likewise
};

struct RankEnding {
  Rank rank = kNoRank;
  Ending ending;
};

class Agent {
 public:
  /// A started rank; its output arrives on non-blocking descriptors.
  struct Started {
    Rank rank = kNoRank;
    pid_t pid = -1;
    UniqueFd standard_output;
    UniqueFd standard_error;
  };

  Agent(HostJob job, const Secret& secret) : job_(std::move(job)), secret_(secret) {}

  const HostJob& job() const { return job_; }
  /// Starts one of job().ranks. A failure says which rank, and names the limit that was reached.
  Result<Started> start(const RankPlace& place);
  /// The ranks that have ended since the last call.
  std::vector<RankEnding> collect();
  /// Signals the process group of every rank that has not ended.
  void signal_ranks(int signal) const;
  /// The sessions of all ranks, ended ones too; their numbers stay theirs until the agent goes.
  std::vector<pid_t> sessions() const;

 private:
  struct Child {
    Rank rank;
    Process process;
    bool ended = false;
  };
  Result<UniqueFd> secret_descriptor() const;
  Result<UniqueFd> input_for(Rank rank) const;

  HostJob job_;
  const Secret& secret_;
  std::vector<Child> children_;
};

}  // namespace rondel
