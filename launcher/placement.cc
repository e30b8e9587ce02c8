// SPDX-License-Identifier: Apache-2.0
#include "launcher/placement.h"

#include <fmt/format.h>

#include <algorithm>
#include <cstdint>
#include <string>

namespace rondel {
namespace {

/// How many ranks each host takes.
using Counts = std::vector<Rank>;

Status wrong(std::string cause, std::string hint = {}) {
  return Status(Code::invalid_argument, std::move(cause), std::move(hint));
}

/// In rounds, one for each host that still has a slot in this round; at most as many as there are slots.
void deal(std::span<const Host> hosts, Rank ranks, Counts& counts) {
  std::vector<std::size_t> open(hosts.size());
  for (std::size_t host = 0; host < open.size(); ++host) open[host] = host;
  for (Rank round = 0; ranks > 0; ++round) {
    std::erase_if(open, [&](std::size_t host) { return hosts[host].slots <= round; });
    for (const std::size_t host : open) {
      if (ranks == 0) return;
      ++counts[host];
      --ranks;
    }
  }
}

void fill(std::span<const Host> hosts, Rank ranks, Counts& counts) {
  for (std::size_t host = 0; host < hosts.size(); ++host) {
    counts[host] = std::clamp<Rank>(hosts[host].slots, 0, ranks);
    ranks -= counts[host];
  }
}

Status check_ranks(std::int64_t ranks) {
  if (ranks >= 1 && ranks <= kMostRanks) return {};
  return wrong(fmt::format("{} ranks asked for, 1 to {} wanted", ranks, kMostRanks));
}

Result<Counts> count_by_slots(std::span<const Host> hosts, const PlacementRules& rules) {
  std::int64_t slots = 0;
  for (const Host& host : hosts) slots += std::max<Rank>(host.slots, 0);
  const std::int64_t ranks = rules.ranks == 0 ? slots : rules.ranks;
  if (slots == 0) return wrong(fmt::format("{} ranks asked for, but the hosts have 0 slots", ranks));
  RONDEL_TRY(check_ranks(ranks));
  if (ranks > slots && !rules.oversubscribe)
    return wrong(fmt::format("{} ranks asked for, but the hosts have {} slots", ranks, slots),
                 "name hosts with enough slots (-H NAME:SLOTS), or let these take more with --oversubscribe");

  Counts counts(hosts.size());
  const auto rounds = static_cast<Rank>(ranks / slots), rest = static_cast<Rank>(ranks % slots);
  if (rounds > 0)
    for (std::size_t host = 0; host < hosts.size(); ++host)
      counts[host] = rounds * std::max<Rank>(hosts[host].slots, 0);
  if (rounds == 0 && rules.map_by == MapBy::slot)
    fill(hosts, rest, counts);
  else
    deal(hosts, rest, counts);
  return counts;
}

/// How many of the hosts are used when each takes the same number.
Result<std::size_t> count_hosts(std::size_t hosts, const PlacementRules& rules) {
  if (rules.ranks == 0) return hosts;
  if (rules.ranks % rules.per_host != 0)
    return wrong(fmt::format("{} ranks can not be {} on each host", rules.ranks, rules.per_host),
                 fmt::format("make -np a multiple of {}, or leave it out for {} on every host",
                             rules.per_host, rules.per_host));
  const auto used = static_cast<std::size_t>(rules.ranks / rules.per_host);
  if (used > hosts)
    return wrong(fmt::format("{} ranks asked for, {} on each host: that takes {} hosts, but there {} {}",
                             rules.ranks, rules.per_host, used, hosts == 1 ? "is" : "are", hosts),
                 "name more hosts, or change -np or -N");
  return used;
}

Result<Counts> count_per_host(std::span<const Host> hosts, const PlacementRules& rules) {
  const auto used = count_hosts(hosts.size(), rules);
  if (!used.ok()) return used.status();
  RONDEL_TRY(check_ranks(static_cast<std::int64_t>(*used) * rules.per_host));
  Counts counts(hosts.size());
  for (std::size_t host = 0; host < *used; ++host) {
    if (hosts[host].slots < rules.per_host && !rules.oversubscribe)
      return wrong(fmt::format("{} ranks on each host asked for, but host {} has slots for {}",
                               rules.per_host, name_of(hosts[host]), hosts[host].slots),
                   fmt::format("give it {} slots ({}:{}), or let it take more with --oversubscribe",
                               rules.per_host, name_of(hosts[host]), rules.per_host));
    counts[host] = rules.per_host;
  }
  return counts;
}

/// The table without ranks, host by host, so that those of one local rank come in the order of hosts.
std::vector<RankPlace> list_places(const Counts& counts) {
  std::vector<RankPlace> places;
  Counts hosts_with(static_cast<std::size_t>(*std::max_element(counts.begin(), counts.end())));
  for (std::size_t host = 0; host < counts.size(); ++host)
    for (Rank local = 0; local < counts[host]; ++local)
      places.push_back({.local_rank = local,
                        .local_size = counts[host],
                        .host = host,
                        .cross_rank = hosts_with[static_cast<std::size_t>(local)]++});
  for (RankPlace& place : places) place.cross_size = hosts_with[static_cast<std::size_t>(place.local_rank)];
  return places;
}

}  // namespace

Result<std::vector<RankPlace>> place(std::span<const Host> hosts, const PlacementRules& rules) {
  if (rules.ranks < 0 || rules.per_host < 0)
    return wrong(fmt::format("{} ranks asked for, {} on each host", rules.ranks, rules.per_host));
  const auto counts = rules.per_host > 0 ? count_per_host(hosts, rules) : count_by_slots(hosts, rules);
  if (!counts.ok()) return counts.status();
  std::vector<RankPlace> places = list_places(*counts);
  // Dealing in rounds gives each host's next local rank to one host after the other.
  if (rules.map_by == MapBy::node)
    std::stable_sort(places.begin(), places.end(), [](const RankPlace& one, const RankPlace& other) {
      return one.local_rank < other.local_rank;
    });
  Rank next = 0;
  for (RankPlace& place : places) {
    place.rank = next++;
    place.size = static_cast<Rank>(places.size());
  }
  return places;
}

}  // namespace rondel
