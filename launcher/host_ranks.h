// SPDX-License-Identifier: Apache-2.0
// HostRanks: starts the ranks of one host, signals them and sees how they end. Owned by the agent of that
// host; one thread. It decides nothing: when to stop whom is the supervisor's business, in the launcher.
#pragma once

#include <sys/types.h>

#include <string>
#include <vector>

#include "launcher/agent_protocol.h"
#include "launcher/process.h"
#include "lib/status.h"
#include "lib/unique_fd.h"

namespace rondel {

/// What ranks start with, as the agent found it.
struct RankSetup {
  sigset_t signal_mask{};
  rlimit descriptor_limit{};
  std::vector<CpuSet> bindings{};  ///< by local rank; empty sets, or none: not bound
};

class HostRanks {
 public:
  /// A started rank; its output arrives on non-blocking descriptors.
  struct Started {
    Rank rank = kNoRank;
    pid_t pid = -1;
    CpuSet cpus;  ///< that it is bound to
    UniqueFd standard_output;
    UniqueFd standard_error;
  };

  HostRanks(agent::Order order, const RankSetup& setup) : order_(std::move(order)), setup_(setup) {}

  const agent::Order& order() const { return order_; }
  /// Starts one of order().ranks, with `input` as its standard input; -1: it reads nothing. A failure says
  /// which rank, and names the limit that was reached.
  Result<Started> start(const RankPlace& place, int input);
  /// The ranks that have ended since the last call.
  std::vector<RankEnding> collect();
  /// Signals the process group of every rank that has not ended.
  void signal_ranks(int signal) const;
  bool all_ended() const;
  /// The sessions of all ranks, ended ones too; their numbers stay theirs until this object goes.
  std::vector<pid_t> sessions() const;

 private:
  struct Child {
    Rank rank;
    Process process;
    bool ended = false;
  };
  Result<UniqueFd> secret_descriptor() const;

  agent::Order order_;
  RankSetup setup_;
  std::vector<Child> children_;
};

}  // namespace rondel
