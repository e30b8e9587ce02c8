// SPDX-License-Identifier: Apache-2.0
// Runs n ranks as threads of the test's process and collects what they report. A rank that is still running
// at the deadline ends the whole process with a sentence that names it: threads can not be killed. Called by
// the main thread.
#pragma once

#include <chrono>
#include <condition_variable>
#include <functional>
#include <mutex>
#include <string>
#include <vector>

#include "lib/deadline.h"
#include "tests/support/rank_test.h"

namespace rondel::test {

/// Calls body once for each rank, each on its own thread, and returns all failures when all have ended.
///
///   CHECK(all_of(run_as_threads(4, [&](RankTest& test) { test.expect(...); })) == "");
std::vector<std::string> run_as_threads(Rank ranks, const std::function<void(RankTest&)>& body,
                                        std::chrono::nanoseconds limit = std::chrono::seconds(100));

/// Something that happens once, for which others wait: replaces every sleep in a test. Any thread.
class Event {
 public:
  void set();
  bool is_set() const;
  /// False when the deadline passed first.
  bool wait(Deadline deadline) const;

 private:
  mutable std::mutex mutex_;
  mutable std::condition_variable changed_;
  bool set_ = false;
};

/// A place where `ranks` threads wait for one another, as often as they like. Any thread.
class Meeting {
 public:
  explicit Meeting(Rank ranks) : ranks_(ranks) {}
  /// Returns when all have arrived; false when the deadline passed first.
  bool arrive_and_wait(Deadline deadline);

 private:
  const Rank ranks_;
  std::mutex mutex_;
  std::condition_variable changed_;
  Rank arrived_ = 0;
  unsigned round_ = 0;
};

}  // namespace rondel::test
