// SPDX-License-Identifier: Apache-2.0
#include "launcher/doctor/schedule.h"

#include <algorithm>

namespace rondel::doctor {
namespace {

using std::chrono::milliseconds;

constexpr milliseconds kLongest{300}, kShortest{100};  // of bulk
constexpr milliseconds kBeside{100};                   // small messages, and being told

}  // namespace

Schedule make_schedule(const std::vector<std::vector<bool>>& reaches, milliseconds budget) {
  Schedule schedule;
  const std::size_t hosts = reaches.size();
  const auto add = [&](std::size_t from, std::size_t to) {
    if (reaches[from][to]) schedule.pairs.emplace_back(from, to);
  };
  for (std::size_t step = 1; 2 * step <= hosts; ++step) {
    for (std::size_t host = 0; host < hosts; ++host) add(host, (host + step) % hosts);
    if (2 * step == hosts) continue;  // that was both ways already
    for (std::size_t host = 0; host < hosts; ++host) add((host + step) % hosts, host);
  }
  const auto count = static_cast<milliseconds::rep>(schedule.pairs.size());
  if (count == 0) return schedule;
  schedule.each = std::clamp(budget / count - kBeside, kShortest, kLongest);
  const auto most =
      static_cast<std::size_t>(std::max<milliseconds::rep>(1, budget / (schedule.each + kBeside)));
  if (schedule.pairs.size() > most) {
    schedule.left_out = schedule.pairs.size() - most;
    schedule.pairs.resize(most);
  }
  return schedule;
}

}  // namespace rondel::doctor
