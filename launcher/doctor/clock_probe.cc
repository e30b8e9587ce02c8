// SPDX-License-Identifier: Apache-2.0
#include "launcher/doctor/clock_probe.h"

#include <limits>

namespace rondel::doctor {

std::uint32_t ClockProbe::ask(Steady now, std::int64_t wall_ns) {
  asked_at_ = now;
  wall_ns_ = wall_ns;
  return ++asked_;
}

bool ClockProbe::tell(std::uint32_t number, std::uint64_t their_ns, Steady now) {
  constexpr std::uint64_t kMost = std::numeric_limits<std::int64_t>::max();
  if (number != asked_ || answered_ == asked_ || their_ns > kMost) return false;
  ++answered_;
  const std::int64_t half = std::chrono::nanoseconds(now - asked_at_).count() / 2;
  const auto uncertain = static_cast<std::uint64_t>(half);
  if (!estimate_ || uncertain < estimate_->uncertain_ns)
    estimate_ = ClockEstimate{static_cast<std::int64_t>(their_ns) - (wall_ns_ + half), uncertain};
  return true;
}

}  // namespace rondel::doctor
