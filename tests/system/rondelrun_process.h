// SPDX-License-Identifier: Apache-2.0
// Runs the built rondelrun as a user would and watches it: its output, its end, and every process that came
// of it (they all inherit a mark of their own in the environment). One thread. Every wait has a deadline.
#pragma once

#include <sys/types.h>

#include <chrono>
#include <string>
#include <vector>

#include "lib/unique_fd.h"

namespace rondel::test {

struct LaunchSetup {
  std::vector<std::string> arguments;    ///< of rondelrun
  std::vector<std::string> environment;  ///< "NAME=value", beside or in place of the test's own
  std::string input;                     ///< what its standard input holds
  bool terminal = false;                 ///< run on a terminal of its own, input and output
  bool ignore_hangup = false;            ///< as under nohup
  bool one_pipe = false;                 ///< 2>&1
  int descriptor_limit = 0;              ///< 0: as it is
};

class RunningLauncher {
 public:
  explicit RunningLauncher(const LaunchSetup& setup);
  RunningLauncher(const RunningLauncher&) = delete;
  RunningLauncher& operator=(const RunningLauncher&) = delete;
  ~RunningLauncher();  // kills what is left

  pid_t pid() const { return pid_; }
  /// Waits until `text` has come `times` times on standard output. False after 20 s.
  bool wait_for_output(const std::string& text, int times = 1);
  /// The same for standard error.
  bool wait_for_error(const std::string& text);
  /// Reads everything until the launcher has ended, and returns its wait status as shells do: the exit code,
  /// or 1000 + signal when it was killed. -1 after 30 s.
  int wait();
  void signal(int number) const;
  /// Types into the terminal.
  void type(const std::string& keys) const;
  /// Closes the reading end of its standard output.
  void close_output() { out_.reset(); }

  const std::string& output() const { return output_; }
  const std::string& error() const { return error_; }
  std::vector<std::string> output_lines() const;
  /// Seconds since the start.
  double seconds() const;
  /// Whether every process of the job, launcher included, is gone within 10 s.
  bool nothing_is_left() const;
  /// Waits until exactly so many processes of the job live. False after 20 s.
  bool wait_for_processes(std::size_t count) const;
  /// Waits until exactly so many of them are stopped, as by Ctrl-Z. False after 20 s.
  bool wait_for_stopped(std::size_t count) const;
  /// Whether a process of the job comes or goes in that time.
  bool ranks_change_within(std::chrono::milliseconds time) const;
  /// Waits until the launcher, having read something, does nothing for 200 ms. False after 20 s.
  bool wait_until_idle() const;
  /// Memory that the launcher has in use.
  std::size_t resident_bytes() const;
  /// All living processes that carry the mark.
  std::vector<pid_t> processes() const;

 private:
  bool read_some(int timeout_ms);
  void drain(UniqueFd& fd, std::string& text);

  std::string mark_;
  pid_t pid_ = -1;
  UniqueFd out_, err_, terminal_;
  std::string output_, error_;
  double start_ = 0;
};

}  // namespace rondel::test
