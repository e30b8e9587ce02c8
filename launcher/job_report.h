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

/// Lines without newlines. `pids` by rank, shorter when not all ranks were started; `error_lines` are the
/// last lines that the first failing rank wrote to standard error.
std::vector<std::string> job_report(const Supervisor& supervisor, std::span<const pid_t> pids,
                                    const std::string& host, std::span<const std::string> error_lines);

}  // namespace rondel
