// SPDX-License-Identifier: Apache-2.0
#include "launcher/arrival_watch.h"

#include <fmt/format.h>

#include <algorithm>

namespace rondel {

std::optional<std::string> ArrivalWatch::look(std::span<const std::int32_t> arrived, Time now) {
  if (over_ || arrived.empty()) return std::nullopt;
  if (!first_seen_) first_seen_ = now;
  std::vector<bool> here(static_cast<std::size_t>(ranks_), false);
  for (const std::int32_t rank : arrived)
    if (rank >= 0 && rank < ranks_) here[static_cast<std::size_t>(rank)] = true;

  constexpr std::size_t kMostNamed = 16;
  std::vector<Rank> missing;
  for (Rank rank = 0; rank < ranks_; ++rank) {
    if (!here[static_cast<std::size_t>(rank)]) missing.push_back(rank);
  }
  over_ = missing.empty() || now - *first_seen_ >= patience_;
  if (missing.empty() || !over_) return std::nullopt;
  named_.assign(missing.begin(),
                missing.begin() + static_cast<std::ptrdiff_t>(std::min(missing.size(), kMostNamed)));
  std::string names;
  for (const Rank rank : named_) {
    names += fmt::format("{}{}", names.empty() ? "" : ", ", rank);
    if (!hosts_.empty()) names += fmt::format(" ({})", hosts_[static_cast<std::size_t>(rank)]);
  }
  if (missing.size() > kMostNamed) names += fmt::format(" and {} more", missing.size() - kMostNamed);
  return fmt::format("{} of {} ranks have joined the job; still missing {:.1f} s after the first one: {} {}",
                     static_cast<std::size_t>(ranks_) - missing.size(), ranks_,
                     static_cast<double>(patience_.count()) / 1000.0, missing.size() == 1 ? "rank" : "ranks",
                     names);
}

}  // namespace rondel
