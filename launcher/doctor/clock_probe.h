// SPDX-License-Identifier: Apache-2.0
// ClockProbe: how far another host's clock is from this one's, from some questions and answers: the quickest
// one bounds the error by half of its time. Pure: times in, an estimate out; one thread.
#pragma once

#include <chrono>
#include <cstdint>
#include <optional>

#include "launcher/doctor/findings.h"

namespace rondel::doctor {

class ClockProbe {
 public:
  using Steady = std::chrono::steady_clock::time_point;

  static constexpr std::uint32_t kRounds = 8;

  /// A question leaves now; `wall_ns` is this host's clock, in nanoseconds since 1970. Its number is
  /// returned.
  std::uint32_t ask(Steady now, std::int64_t wall_ns);
  /// An answer; one to another question than the last is not looked at. True: it was the last one's.
  bool tell(std::uint32_t number, std::uint64_t their_ns, Steady now);
  bool done() const { return answered_ >= kRounds; }
  const std::optional<ClockEstimate>& estimate() const { return estimate_; }

 private:
  std::uint32_t asked_ = 0, answered_ = 0;
  Steady asked_at_{};
  std::int64_t wall_ns_ = 0;
  std::optional<ClockEstimate> estimate_;
};

}  // namespace rondel::doctor
