// SPDX-License-Identifier: Apache-2.0
#include "launcher/doctor/probe_targets.h"

#include <fmt/format.h>

#include <algorithm>

#include "lib/interfaces.h"
#include "lib/store/socket.h"

namespace rondel::doctor {
namespace {

/// Lower is better.
int rank_of(const NicFacts& nic, const HostFacts& seen_from) {
  const auto ip = parse_ip(nic.address);
  if (!ip.ok()) return 9;
  bool near = false, own = false;
  for (const NicFacts& mine : seen_from.nics) {
    const auto other = parse_ip(mine.address);
    own = own || mine.address == nic.address;  // docker0's leads back
    near = near || (mine.chosen && other.ok() && other->length == ip->length &&
                    same_network(*other, *ip, mine.prefix_bits));
  }
  return (own ? 4 : near ? 0 : 2) + (ip->is_v6() ? 1 : 0);
}

}  // namespace

std::vector<agent::ProbeTarget> targets_of(const Findings& findings, std::size_t from,
                                           const std::vector<bool>& takes_part) {
  std::vector<agent::ProbeTarget> targets;
  const auto& own = findings.hosts[from].facts;
  const std::size_t hosts = findings.hosts.size();
  // From the next host on: not all are to begin with the same one.
  for (std::size_t step = 1; own && step < hosts; ++step) {
    const std::size_t to = (from + step) % hosts;
    const auto& facts = findings.hosts[to].facts;
    if (!takes_part[to] || !facts) continue;
    std::vector<NicFacts> nics;
    std::copy_if(facts->nics.begin(), facts->nics.end(), std::back_inserter(nics),
                 [](const NicFacts& nic) { return nic.chosen; });
    std::stable_sort(nics.begin(), nics.end(), [&own](const NicFacts& one, const NicFacts& other) {
      return rank_of(one, *own) < rank_of(other, *own);
    });
    agent::ProbeTarget target{.host = static_cast<std::uint32_t>(to), .store = false, .addresses = {}};
    for (const NicFacts& nic : nics)
      for (const std::uint16_t port : facts->ports.listening)
        target.addresses.push_back(store::join_address(nic.address, port));
    if (!target.addresses.empty()) targets.push_back(std::move(target));
  }
  return targets;
}

}  // namespace rondel::doctor
