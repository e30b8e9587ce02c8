// SPDX-License-Identifier: Apache-2.0
// Process: one child in a session of its own, killed with its parent: a rank (owned by the agent), ssh or the
// agent of this host (owned by the launcher). One thread. An ended child stays a zombie until the owner goes:
// as long as it does, no stranger can get its process group's number.
#pragma once

#include <signal.h>
#include <sys/resource.h>
#include <sys/types.h>

#include <optional>
#include <string>
#include <vector>

#include "lib/cpu_set.h"
#include "lib/status.h"

namespace rondel {

/// What a child takes over; descriptors are borrowed until spawn() returns.
struct ProcessRequest {
  std::vector<std::string> words;        ///< program and arguments
  std::string search_path;               ///< as PATH: where a program without '/' is looked for
  std::vector<std::string> environment;  ///< "NAME=value"
  std::string directory;                 ///< where to start; empty: the parent's
  int standard_input = -1;
  int standard_output = -1;
  int standard_error = -1;
  int inherited = -1;         ///< one more descriptor that the child keeps, under its number; -1: none
  sigset_t signal_mask{};     ///< what was blocked before the parent changed it
  rlimit descriptor_limit{};  ///< likewise
  CpuSet cpus;                ///< that the child, and whatever it starts, may run on; empty: the parent's
};

/// How a process ended: by exit with `code`, or by `signal` when that is not 0.
struct Ending {
  int code = 0;
  int signal = 0;
  bool ok() const { return code == 0 && signal == 0; }
  /// As shells count: the code, or 128 + signal.
  int exit_code() const { return signal != 0 ? 128 + signal : code; }
};

class Process {
 public:
  /// Returns once the program runs. unavailable: it could not be found or run; out_of_resources names the
  /// limit.
  static Result<Process> spawn(const ProcessRequest& request);
  /// A child that was forked elsewhere, and leads a session of its own or is about to.
  static Process adopt(pid_t child) { return Process(child); }

  Process(Process&& other) noexcept;
  Process& operator=(Process&& other) noexcept;
  ~Process();  // kills the group and collects the child

  pid_t pid() const { return pid_; }
  /// The ending, once there is one.
  std::optional<Ending> ending();
  /// Signals every process of the child's group.
  void signal_group(int signal) const;

 private:
  explicit Process(pid_t pid) : pid_(pid) {}
  void finish() noexcept;

  pid_t pid_ = -1;
  std::optional<Ending> ending_;
};

}  // namespace rondel
