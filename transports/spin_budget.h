// SPDX-License-Identifier: Apache-2.0
// SpinBudget: how long an endpoint polls before it sleeps. Polling answers soonest while the peer has a core
// of its own; where the two share one, the peer gets it only when this side sleeps, and every poll is time
// lost. Which of the two it is shows in how waits end. Driver thread only.
#pragma once

#include <algorithm>
#include <chrono>

namespace rondel {

class SpinBudget {
 public:
  using Time = std::chrono::nanoseconds;
  /// About what falling asleep and waking up costs: so long it is never wrong to poll.
  static constexpr Time kLeast = std::chrono::microseconds(25);
  /// After so many waits in the least budget one gets the whole: the peer may have a core again.
  static constexpr int kWaitsPerTry = 64;

  explicit SpinBudget(Time most) : most_(most), now_(most) {}

  Time now() const { return now_; }
  /// From when on a wait that ends says whether polling pays.
  Time least() const { return std::min(most_, kLeast); }

  /// A wait that was longer than least() ended while polling.
  void ended_polling() { now_ = most_; }

  /// A wait went on until this side slept, and ended `waited` after its begin. When that was soon after,
  /// sleep may be what ended it; a peer that was busy for long is no reason to poll less.
  void ended_sleeping(Time waited) {
    if (now_ == most_ && waited < 2 * most_) {
      now_ = least();
      waits_ = 0;
    } else if (now_ != most_ && ++waits_ >= kWaitsPerTry) {
      now_ = most_;
    }
  }

 private:
  Time most_;
  Time now_;
  int waits_ = 0;  // since the budget became the least
};

}  // namespace rondel
