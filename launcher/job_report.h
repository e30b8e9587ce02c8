// SPDX-License-Identifier: Apache-2.0
// The small table that tells how a job's ranks ended, first cause first. Pure: facts in, text out.
#pragma once

#include <sys/types.h>

#include <span>
#include <string>
#include <vector>

#include "launcher/supervisor.h"

namespace rondel {

/// "exit code 3", "killed by signal 9 (SIGKILL), maybe out of memory", "stopped by launcher (SIGTERM)".
std::string ending_text(const Supervisor::Record& record);

/// "ranks 1, 2 and 5 more"
std::string text_of(std::span<const Rank> ranks);

/// What is known of a rank that others wait for: how it ended, and the last lines that it wrote to standard
/// error. Nothing when it runs and has written nothing.
std::vector<std::string> late_rank_report(Rank rank, const std::string& host,
                                          const Supervisor::Record& record,
                                          std::span<const std::string> error_lines);

/// Where a rank ran.
struct RankProcess {
  std::string host;
  pid_t pid = -1;  ///< -1: it was never started
};

/// Lines without newlines. `processes` by rank; `error_lines` are the last lines that the first failing rank
/// wrote to standard error.
std::vector<std::string> job_report(const Supervisor& supervisor, std::span<const RankProcess> processes,
                                    std::span<const std::string> error_lines);

}  // namespace rondel
