// SPDX-License-Identifier: Apache-2.0
#include "tests/launcher/doctor/sample.h"

#include <fmt/format.h>

#include <algorithm>

namespace rondel::test {

doctor::HostFindings healthy_host(const std::string& label, int number) {
  doctor::HostFacts facts;
  facts.kernel = "6.1.0 x86_64";
  facts.machine_cores = facts.usable_cores = 16;
  facts.memory_bytes = facts.memory_free_bytes = std::uint64_t{64} << 30U;
  facts.shm_bytes = facts.shm_free_bytes = std::uint64_t{32} << 30U;
  facts.open_files = {.soft = 65'536, .hard = 1'048'576};
  facts.locked_bytes = {.soft = 8U << 20U, .hard = 8U << 20U};
  const std::string address = fmt::format("10.0.0.{}", number);
  facts.nics = {{.name = "lo", .address = "127.0.0.1", .prefix_bits = 8, .mtu = 65'536},
                {.name = "eth0",
                 .address = address,
                 .prefix_bits = 24,
                 .mtu = 1500,
                 .speed_mbit_s = 10'000,
                 .numa_node = {},
                 .chosen = true}};
  facts.transports = {{"tcp", true, true, "", "", ""},
                      {"other", false, false, "not in this version", "", ""}};
  facts.own_name = {.name = label, .addresses = {address}, .failure = {}, .took_ms = 1};
  facts.ports = {.listening = {4000}, .free_in_range = {}, .failure = {}};
  facts.congestion_control = "cubic";
  doctor::HostFindings host;
  host.label = host.own_name = label;
  host.machine = "boot/" + label;
  host.ranks = 2;
  host.by_hand = "ssh " + label + " rondelrun --version";
  host.facts = facts;
  host.clock = doctor::ClockEstimate{.ahead_ns = 40'000, .uncertain_ns = 100'000};
  host.attempts = {{.host = 0, .store = true, .address = "10.0.0.100:5000", .reached = true, .why_not = {}}};
  return host;
}

doctor::Findings healthy(std::size_t hosts) {
  doctor::Findings findings;
  findings.version = "1.2.3";
  findings.next = "rondelrun -H all ./train";
  findings.seconds = 2.5;
  for (std::size_t i = 0; i < hosts; ++i)
    findings.hosts.push_back(healthy_host(fmt::format("h{}", i + 1), static_cast<int>(i + 1)));
  findings.ranks = static_cast<Rank>(2 * hosts);
  for (std::size_t i = 0; i < hosts; ++i) {
    findings.hosts[i].first_rank = static_cast<Rank>(2 * i);
    findings.hosts[i].last_rank = static_cast<Rank>(2 * i + 1);
  }
  for (std::size_t from = 0; from < hosts; ++from)
    for (std::size_t to = 0; to < hosts; ++to) {
      if (from == to) continue;
      const std::string address = fmt::format("10.0.0.{}:4000", to + 1);
      findings.hosts[from].attempts.push_back({.host = static_cast<std::uint32_t>(to),
                                               .store = false,
                                               .address = address,
                                               .reached = true,
                                               .why_not = {}});
      findings.measured.push_back({from,
                                   to,
                                   address,
                                   {.host = static_cast<std::uint32_t>(to),
                                    .why_not = {},
                                    .round_trip_ns = 50'000,
                                    .bytes = 125'000'000,
                                    .bulk_ns = 100'000'000,
                                    .path_mtu = 1500}});
    }
  return findings;
}

void close_way(doctor::Findings& findings, std::size_t from, std::size_t to, const std::string& why) {
  for (agent::Attempt& one : findings.hosts[from].attempts)
    if (!one.store && one.host == to) {
      one.reached = false;
      one.why_not = why;
    }
  std::erase_if(findings.measured,
                [from, to](const doctor::MeasuredPair& pair) { return pair.from == from && pair.to == to; });
}

}  // namespace rondel::test
