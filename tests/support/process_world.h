// SPDX-License-Identifier: Apache-2.0
// Runs n ranks as forked processes, so that one can be killed or stopped, and collects their ends and their
// words. Start it while the test has one thread only. The destructor kills and reaps whatever is left. Main
// thread only.
#pragma once

#include <sys/types.h>

#include <chrono>
#include <functional>
#include <string>
#include <string_view>
#include <vector>

#include "lib/deadline.h"
#include "lib/unique_fd.h"
#include "tests/support/rank_test.h"

namespace rondel::test {

/// What a rank's process writes to its parent. In the child only.
class Voice {
 public:
  explicit Voice(int fd) : fd_(fd) {}
  /// One line, whole and at once.
  void say(std::string_view line) const;

 private:
  int fd_;
};

/// How a rank ended.
struct Ending {
  bool ended = false;  ///< false: it was still running at the deadline, and has been killed
  int exit_code =
      -1;             ///< 0: its body ran to the end without failures; 1: with failures, which are in `words`
  int signal = 0;     ///< the signal that ended it, or 0
  std::string words;  ///< all it said, and its failures
};

class ProcessWorld {
 public:
  using Body = std::function<void(RankTest&, const Voice&)>;

  /// Forks one process for each rank; each runs `body` and exits.
  ProcessWorld(Rank ranks, const Body& body);
  ~ProcessWorld();
  ProcessWorld(const ProcessWorld&) = delete;
  ProcessWorld& operator=(const ProcessWorld&) = delete;

  Rank size() const { return static_cast<Rank>(processes_.size()); }
  pid_t pid_of(Rank rank) const;
  /// SIGKILL, SIGSTOP, SIGCONT, ... to one rank.
  void signal(Rank rank, int signal);
  /// Waits until `rank` has said `line`; false when it ended or the deadline passed first.
  bool heard(Rank rank, std::string_view line, Deadline deadline);
  /// Waits for one rank's end.
  Ending wait(Rank rank, Deadline deadline);
  /// Waits for all of them under one deadline.
  std::vector<Ending> wait_all(Deadline deadline);

 private:
  struct Process {
    pid_t pid = -1;
    UniqueFd pidfd;
    UniqueFd words;
    std::string heard;
    bool silent = false;  // its end of the pipe is closed
    bool reaped = false;
    Ending ending;
  };

  static Process start(Rank rank, Rank ranks, const Body& body);
  static void listen(Process& process, Deadline deadline);
  static void reap(Process& process);
  Process& at(Rank rank);

  std::vector<Process> processes_;
};

/// The failures of all ranks but `excepted` (for the one that the test has killed), one a line; empty when
/// there are none.
std::string failures_of(const std::vector<Ending>& endings, Rank excepted = kNoRank);

}  // namespace rondel::test
