// SPDX-License-Identifier: Apache-2.0
#include "launcher/placement.h"

#include <fmt/format.h>

#include <algorithm>
#include <cstdint>

namespace rondel {

Result<std::vector<RankPlace>> place(std::span<const HostSlots> hosts, Rank ranks) {
  if (ranks < 1)
    return Status(Code::invalid_argument, fmt::format("{} ranks asked for, at least 1 wanted", ranks));
  std::int64_t slots = 0;
  for (const HostSlots& host : hosts) slots += std::max<Rank>(host.slots, 0);
  if (slots < ranks)
    return Status(Code::invalid_argument,
                  fmt::format("{} ranks asked for, but the hosts have {} slots", ranks, slots));

  std::vector<RankPlace> places;
  places.reserve(static_cast<std::size_t>(ranks));
  Rank next = 0;
  for (std::size_t host = 0; host < hosts.size(); ++host) {
    const Rank here = std::clamp<Rank>(hosts[host].slots, 0, ranks - next);
    for (Rank local = 0; local < here; ++local)
      places.push_back(
          {.rank = next++, .size = ranks, .local_rank = local, .local_size = here, .host = host});
  }
  return places;
}

}  // namespace rondel
