// SPDX-License-Identifier: Apache-2.0
#include "launcher/arrival_watch.h"

#include <fmt/format.h>

namespace rondel {

std::optional<std::string> ArrivalWatch::look(std::span<const std::int32_t> arrived, Time now) {
  if (over_ || arrived.empty()) return std::nullopt;
  if (!first_seen_) first_seen_ = now;
  std::vector<bool> here(static_cast<std::size_t>(ranks_), false);
  for (const std::int32_t rank : arrived)
    if (rank >= 0 && rank < ranks_) here[static_cast<std::size_t>(rank)] = true;

  constexpr int kMostNamed = 16;
  std::string names;
  int missing = 0;
  for (Rank rank = 0; rank < ranks_; ++rank) {
    if (here[static_cast<std::size_t>(rank)]) continue;
    if (++missing > kMostNamed) continue;
    names += fmt::format("{}{}", names.empty() ? "" : ", ", rank);
    if (!hosts_.empty()) names += fmt::format(" ({})", hosts_[static_cast<std::size_t>(rank)]);
  }
  over_ = missing == 0 || now - *first_seen_ >= patience_;
  if (missing == 0 || !over_) return std::nullopt;
  if (missing > kMostNamed) names += fmt::format(" and {} more", missing - kMostNamed);
  return fmt::format("{} of {} ranks have joined the job; still missing {:.1f} s after the first one: {} {}",
                     ranks_ - missing, ranks_, static_cast<double>(patience_.count()) / 1000.0,
                     missing == 1 ? "rank" : "ranks", names);
}

}  // namespace rondel
