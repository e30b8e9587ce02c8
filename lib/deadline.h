// SPDX-License-Identifier: Apache-2.0
// Deadline: the point in time after which a wait gives up. Every wait in the project takes one. A value, any
// thread.
#pragma once

#include <algorithm>
#include <chrono>

namespace rondel {

class Deadline {
 public:
  using Clock = std::chrono::steady_clock;

  static Deadline in(std::chrono::nanoseconds from_now) { return Deadline(Clock::now() + from_now); }
  static Deadline at(Clock::time_point when) { return Deadline(when); }

  bool passed() const { return Clock::now() >= when_; }
  Clock::time_point when() const { return when_; }
  /// Time left, never negative.
  std::chrono::nanoseconds left() const {
    return std::max<std::chrono::nanoseconds>(when_ - Clock::now(), std::chrono::nanoseconds::zero());
  }
  /// Time left in whole milliseconds rounded up, for poll(2) and its kin; at most one hour.
  int left_ms() const {
    const auto ms = std::chrono::ceil<std::chrono::milliseconds>(left()).count();
    return static_cast<int>(std::min<long long>(ms, 3'600'000));
  }
  /// The earlier of two deadlines.
  Deadline or_before(Deadline other) const { return Deadline(std::min(when_, other.when_)); }

 private:
  explicit Deadline(Clock::time_point when) : when_(when) {}
  Clock::time_point when_;
};

}  // namespace rondel
