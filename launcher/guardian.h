// SPDX-License-Identifier: Apache-2.0
// Guardian: a small process beside an agent that ends the job on its host when the agent is killed. It
// notices by the end of a pipe, so nothing the agent could still do is needed. Owned by the agent, which has
// no other thread; when the job ends in order it is dismissed and signals nobody.
#pragma once

#include <sys/types.h>

#include <chrono>

#include "launcher/job_processes.h"
#include "lib/status.h"
#include "lib/unique_fd.h"

namespace rondel {

class Guardian {
 public:
  /// `mark` tells the job's processes; `grace` lies between SIGTERM and SIGKILL.
  static Result<Guardian> start(JobMark mark, std::chrono::milliseconds grace);
  Guardian(Guardian&& other) noexcept;
  Guardian& operator=(Guardian&&) = delete;
  ~Guardian();  // dismisses it

  pid_t pid() const { return pid_; }
  /// Tells it of a session of the job.
  void protect(pid_t session) const;
  /// That session has died out.
  void forget(pid_t session) const { protect(-session); }

 private:
  Guardian(pid_t pid, UniqueFd pipe) : pid_(pid), pipe_(std::move(pipe)) {}

  pid_t pid_;
  UniqueFd pipe_;
};

}  // namespace rondel
