// SPDX-License-Identifier: Apache-2.0
// Guardian: a small process beside the launcher that ends the job when the launcher itself is killed. It
// notices by the end of a pipe, so nothing the launcher could still do is needed. Owned by the job, started
// before any thread; when the job ends in order it is dismissed and signals nobody.
#pragma once

#include <sys/types.h>

#include <chrono>
#include <string>

#include "lib/status.h"
#include "lib/unique_fd.h"

namespace rondel {

class Guardian {
 public:
  /// `job` marks the job's processes; `grace` lies between SIGTERM and SIGKILL.
  static Result<Guardian> start(const std::string& job, std::chrono::milliseconds grace);
  Guardian(Guardian&& other) noexcept;
  Guardian& operator=(Guardian&&) = delete;
  ~Guardian();  // dismisses it

  pid_t pid() const { return pid_; }
  /// Tells it of a rank's session.
  void protect(pid_t session) const;

 private:
  Guardian(pid_t pid, UniqueFd pipe) : pid_(pid), pipe_(std::move(pipe)) {}

  pid_t pid_;
  UniqueFd pipe_;
};

}  // namespace rondel
