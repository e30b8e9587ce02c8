// SPDX-License-Identifier: Apache-2.0
// The part of diagnosis.h that looks at each host by itself.
#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <cstdlib>

#include "launcher/doctor/diagnosis.h"
#include "launcher/resources.h"
#include "launcher/ssh_command.h"
#include "lib/interfaces.h"

namespace rondel::doctor {
namespace {

constexpr std::uint64_t kMiB = 1U << 20U;
constexpr std::uint64_t kLeastLocked = 64 * kMiB;  // what a rank registers at once at least
constexpr std::uint64_t kSmallShm = 256 * kMiB;    // containers have 64 MiB unless told otherwise
constexpr std::int64_t kSlowName_ms = 1'000;
constexpr std::int64_t kClock_ns = 1'000'000'000;
constexpr std::uint64_t kRankDescriptors = 64;  // beside its connections

/// One host, and where its problems go.
struct Case {
  const Findings& all;
  const HostFindings& host;
  const HostFacts& facts;
  std::vector<Problem>& problems;

  void add(Severity severity, std::string words, std::string fix) const {
    problems.push_back({severity, {host.label}, std::move(words), std::move(fix)});
  }
  void error(std::string words, std::string fix) const {
    add(Severity::error, std::move(words), std::move(fix));
  }
  void warning(std::string words, std::string fix) const {
    add(Severity::warning, std::move(words), std::move(fix));
  }
};

std::string limits_fix(std::string_view item, std::string_view value, std::string_view service) {
  return fmt::format(
      "a line '* - {} {}' in /etc/security/limits.conf there, and {}={} in the service that "
      "sshd or the container runs in; then log in anew",
      item, value, service, value == "unlimited" ? "infinity" : value);
}

void look_at_files(const Case& one) {
  const auto ranks = static_cast<std::size_t>(one.host.ranks);
  const LimitFacts& limit = one.facts.open_files;
  const std::uint64_t wanted = kRankDescriptors + 2 * static_cast<std::uint64_t>(one.all.ranks);
  const std::string fix =
      limits_fix("nofile", std::to_string(std::max<std::uint64_t>(65'536, wanted)), "LimitNOFILE");
  if (limit.hard && *limit.hard < agent_descriptors(ranks))
    return one.error(fmt::format("a process may have {} open files at most; starting {} ranks takes {}",
                                 *limit.hard, ranks, agent_descriptors(ranks)),
                     fix);
  if (!limit.soft || *limit.soft >= wanted) return;
  if (*limit.soft < kRankDescriptors)
    return one.error(
        fmt::format("a rank may have {} open files (ulimit -n), too few for its connections", *limit.soft),
        fix);
  one.warning(fmt::format("a rank may have {} open files (ulimit -n); where each of {} ranks talks to all "
                          "others, it takes about {}",
                          *limit.soft, one.all.ranks, wanted),
              fix);
}

void look_at_rdma(const Case& one) {
  if (one.facts.rdma.empty()) return;
  const auto active = std::find_if(one.facts.rdma.begin(), one.facts.rdma.end(),
                                   [](const RdmaFacts& port) { return port.state == "ACTIVE"; });
  if (active == one.facts.rdma.end()) {
    const RdmaFacts& first = one.facts.rdma.front();
    return one.warning(
        fmt::format("no port of its RDMA devices is active ({} port {} is {})", first.device, first.port,
                    first.state.empty() ? "of unknown state" : first.state),
        "look at its cable and its switch, or for InfiniBand at the subnet manager; ibstat and "
        "rdma link show more");
  }
  if (active->gids == 0)
    one.warning(fmt::format("{} port {} is active but has no GID of a network", active->device, active->port),
                "give its network interface an address");
  const auto& limit = one.facts.locked_bytes.soft;
  if (limit && *limit < kLeastLocked && !one.facts.may_lock)
    one.error(fmt::format("{} could be used, but a process may lock only {} KiB of memory (ulimit -l)",
                          active->device, *limit / 1024),
              limits_fix("memlock", "unlimited", "LimitMEMLOCK"));
}

void look_at_memory(const Case& one) {
  if (one.facts.shm_bytes >= kSmallShm) return;
  const std::string fix = "docker run --shm-size=8g, or mount -o remount,size=8G /dev/shm";
  one.warning(one.facts.shm_bytes == 0
                  ? std::string("there is no /dev/shm; Rondel needs none, but data loaders of frameworks do")
                  : fmt::format("/dev/shm holds {} MiB; Rondel needs none of it, but data loaders of "
                                "frameworks do",
                                one.facts.shm_bytes / kMiB),
              fix);
}

void look_at_cores(const Case& one) {
  const int usable = one.facts.usable_cores;
  if (usable <= 0 || one.host.ranks <= usable) return;
  const bool limited = one.facts.cgroup_cores && *one.facts.cgroup_cores <= usable;
  one.warning(fmt::format("{} ranks share {} cores{}", one.host.ranks, usable,
                          limited ? " (the limit of its control group)" : ""),
              limited ? "raise that limit (docker run --cpus, a pod's limits), or give the host fewer slots"
                      : fmt::format("give it {} slots", usable));
}

std::string first_address(const HostFacts& facts) {
  const auto nic =
      std::find_if(facts.nics.begin(), facts.nics.end(), [](const NicFacts& each) { return each.chosen; });
  return nic == facts.nics.end() ? std::string("its address") : nic->address;
}

bool is_loopback(const std::string& address) {
  const auto ip = parse_ip(address);
  return ip.ok() && ip->is_loopback();
}

void look_at_name(const Case& one) {
  const NameFacts& own = one.facts.own_name;
  if (own.took_ms >= kSlowName_ms)
    one.warning(fmt::format("looking up its own name {} took {:.1f} s", own.name,
                            static_cast<double>(own.took_ms) / 1000.0),
                fmt::format("a line '{} {}' in /etc/hosts there; look at the name servers in "
                            "/etc/resolv.conf",
                            first_address(one.facts), own.name));
  if (one.all.hosts.size() < 2 || is_loopback(first_address(one.facts))) return;
  const std::string fix =
      fmt::format("let its name stand beside {} in its /etc/hosts{}", first_address(one.facts),
                  own.addresses.empty() ? "" : ", in place of " + own.addresses.front());
  if (own.addresses.empty())
    return one.warning(fmt::format("its own name {} has no address there ({}); Rondel does not ask for it, "
                                   "some frameworks do",
                                   own.name, own.failure),
                       fix);
  if (std::all_of(own.addresses.begin(), own.addresses.end(), is_loopback))
    one.warning(fmt::format("its own name {} leads to {}, where no other host finds it; Rondel does not ask "
                            "for it, some frameworks do",
                            own.name, own.addresses.front()),
                fix);
}

bool on_one_machine(const Findings& findings) {
  const std::string& first = findings.hosts.front().machine;
  return findings.hosts.size() == 1 ||
         (!first.empty() &&
          std::all_of(findings.hosts.begin(), findings.hosts.end(),
                      [&first](const HostFindings& host) { return host.machine == first; }));
}

void look_at_network(const Case& one) {
  if (one.all.hosts.size() > 1 && !one.facts.nic_failure.empty())
    one.error(one.facts.nic_failure, "name a network that all hosts share, as in --net 10.0.0.0/8");
  const bool any = std::any_of(one.facts.nics.begin(), one.facts.nics.end(),
                               [](const NicFacts& nic) { return nic.chosen; });
  if (one.all.hosts.size() > 1 && one.facts.nic_failure.empty() && !any)
    one.error("it has no address at which other hosts could reach it", "is a network interface up there?");
  const PortFacts& ports = one.facts.ports;
  // The job's server takes one of the launcher's.
  const std::int64_t wanted = one.host.ranks + (one.host.is_launchers && one.all.hosts.size() > 1 ? 1 : 0);
  if (ports.free_in_range && *ports.free_in_range < wanted) {
    const bool listens = !on_one_machine(one.all) || !one.all.transport.empty();
    return one.add(
        listens ? Severity::error : Severity::warning,
        fmt::format("of RONDEL_PORTS={} there are {} ports free, {} are needed there{}", one.all.ports,
                    *ports.free_in_range, wanted, listens ? "" : ", should the ranks of this machine listen"),
        "make the range larger; ss -tlnp shows who holds ports");
  }
  if (!ports.failure.empty()) one.error(ports.failure, "look at ss -tlnp there");
}

void look_at_clock(const Case& one) {
  if (!one.host.clock) return;
  const std::int64_t ahead = one.host.clock->ahead_ns;
  if (std::abs(ahead) - static_cast<std::int64_t>(one.host.clock->uncertain_ns) < kClock_ns) return;
  one.warning(fmt::format("its clock is {:.1f} s {} this host's; no job fails of it, but times in logs do "
                          "not fit together",
                          std::abs(static_cast<double>(ahead)) / 1e9, ahead > 0 ? "ahead of" : "behind"),
              "run a time service there, such as chrony or systemd-timesyncd");
}

void look_at_transport(const Case& one) {
  if (one.all.transport.empty() || one.facts.transports.empty()) return;
  const TransportFacts* const found = transport_of(one.facts, one.all.transport);
  if (found == nullptr) {
    std::string names;
    for (const TransportFacts& each : one.facts.transports) names += (names.empty() ? "" : ", ") + each.name;
    return one.error(fmt::format("there is no transport {} that was asked for", one.all.transport),
                     fmt::format("choose one of {} with --transport, or none", names));
  }
  if (found->usable) return;
  one.error(
      fmt::format("the transport {} that was asked for can not be used: {}", found->name, found->why_not),
      "choose another one with --transport, or none");
}

}  // namespace

std::vector<Problem> problems_of_host(const Findings& findings, const HostFindings& host) {
  std::vector<Problem> problems;
  if (host.lost) {
    const auto [cause, hint] = split_hint(*host.lost);
    const std::string by_hand =
        host.by_hand.empty() ? "start rondelrun doctor again" : "try it by hand: " + host.by_hand;
    problems.push_back(
        {Severity::error, {host.label}, cause, hint.empty() ? by_hand : hint + "; " + by_hand});
  }
  if (!host.lost && !host.facts)
    problems.push_back(
        {Severity::error, {host.label}, "it was not examined", "start rondelrun doctor again"});
  if (!host.facts) return problems;
  const Case one{findings, host, *host.facts, problems};
  look_at_files(one);
  look_at_rdma(one);
  look_at_network(one);
  look_at_transport(one);
  if (!one.facts.binding_failure.empty())
    one.error(one.facts.binding_failure, "choose another --bind-to, or none");
  look_at_cores(one);
  look_at_memory(one);
  look_at_name(one);
  look_at_clock(one);
  return problems;
}

}  // namespace rondel::doctor
