// SPDX-License-Identifier: Apache-2.0
// The part of diagnosis.h that looks at what lies between hosts.
#include <fmt/format.h>

#include <algorithm>
#include <map>
#include <set>
#include <utility>

#include "launcher/doctor/diagnosis.h"
#include "launcher/doctor/probe_wire.h"
#include "lib/interfaces.h"
#include "lib/store/socket.h"

namespace rondel::doctor {
namespace {

using HostPair = std::pair<std::size_t, std::size_t>;

constexpr std::size_t kMostListed = 8;
constexpr double kSlowShare = 5;           // a pair is slow at this part of the median
constexpr double kLeastMedian = 100e6;     // bits per second, below which shares mean little
constexpr double kSlowRoundTrip_ns = 5e6;  // and how long a round trip is anyway, to be called long

std::string host_in(const std::string& address) {
  const auto parts = store::parse_address(address);
  return parts.ok() ? parts->host : address;
}

/// What an attempt met, with its address.
std::string said(const agent::Attempt& attempt) {
  const std::string& why = attempt.why_not;
  if (why.find("refused)") != std::string::npos) return attempt.address + ": connection refused";
  return why.find(attempt.address) != std::string::npos ? why : attempt.address + ": " + why;
}

std::string ports_text(const Findings& findings) {
  return findings.ports.empty() ? "all TCP ports (RONDEL_PORTS=FIRST-LAST makes them few)"
                                : "TCP ports " + findings.ports;
}

bool has(const std::string& text, std::string_view words) { return text.find(words) != std::string::npos; }

const NicFacts* nic_with(const HostFacts& facts, const std::string& address) {
  const auto found = std::find_if(facts.nics.begin(), facts.nics.end(),
                                  [&address](const NicFacts& nic) { return nic.address == address; });
  return found == facts.nics.end() ? nullptr : &*found;
}

bool is_address_of(const Findings& findings, const std::string& label, const std::string& address) {
  return std::ranges::any_of(findings.hosts, [&label, &address](const HostFindings& host) {
    return host.label == label && host.facts && nic_with(*host.facts, address) != nullptr;
  });
}

/// What to do when `from` does not get through to `to`.
std::string connect_fix(const Findings& findings, const std::string& from, const std::string& to,
                        const agent::Attempt& failed, const std::string& one_of_from) {
  const std::string address = host_in(failed.address);
  const std::string& why = failed.why_not;
  if (has(why, "another host answers") || is_address_of(findings, one_of_from, address))
    return fmt::format(
        "{} is an address of {} itself: choose a network whose addresses differ from host to host with "
        "--net",
        address, one_of_from);
  const std::string route = fmt::format("'ip route get {}' on {} shows the way", address, from);
  if (has(why, "Permission denied") || has(why, "not permitted"))
    return fmt::format("a rule of {} itself forbids it: look at its firewall and at 'ip rule'; {}", from,
                       route);
  if (has(why, "unreachable") || has(why, "No route") || has(why, "Invalid argument"))
    return fmt::format("give {} a route to {}, or let the firewalls pass it; {}", from, address, route);
  return fmt::format(
      "let the firewall of {}, and what lies between, pass {} from {}; {}; --net chooses "
      "another network",
      to, ports_text(findings), from, route);
}

/// The first of them, and one sentence for the others.
std::vector<Problem> bounded(std::vector<Problem> problems, Severity severity, std::string_view what) {
  if (problems.size() <= kMostListed) return problems;
  const std::size_t more = problems.size() - kMostListed;
  problems.resize(kMostListed);
  problems.push_back({severity, {}, fmt::format("{} more {}", more, what), "--json lists all pairs"});
  return problems;
}

constexpr std::string_view kHarmless = ", which no rank needs while hosts and ranks are in this order";

/// Ways that are closed, each one once.
class Unreached {
 public:
  explicit Unreached(const Findings& findings) : findings_(findings) {
    const std::size_t hosts = findings.hosts.size();
    for (std::size_t from = 0; from < hosts; ++from)
      for (std::size_t to = 0; to < hosts; ++to) {
        // Who is lost is named as such, and reaches nobody any more.
        if (from == to || findings.hosts[from].lost || findings.hosts[to].lost) continue;
        const Path path = path_between(findings, from, to);
        if (!path.tried()) continue;
        ++tried_from_[from], ++tried_to_[to];
        if (path.reached == nullptr) failed_[{from, to}] = path.failed;
      }
  }

  std::vector<Problem> problems() {
    const std::size_t hosts = findings_.hosts.size();
    for (std::size_t host = 0; host < hosts; ++host) take_all_to(host);
    for (std::size_t host = 0; host < hosts; ++host) take_all_from(host);
    take_single();
    return std::move(problems_);
  }

 private:
  const std::string& label(std::size_t host) const { return findings_.hosts[host].label; }

  template <class Fits>
  std::vector<HostPair> failed_pairs(const Fits& fits) const {
    std::vector<HostPair> pairs;
    for (const auto& [pair, attempt] : failed_)
      if (fits(pair)) pairs.push_back(pair);
    return pairs;
  }

  /// One sentence in place of many, when nobody reaches a host.
  void take_all_to(std::size_t to) {
    take(failed_pairs([to](const HostPair& pair) { return pair.second == to; }), tried_to_[to], to,
         fmt::format("no host can connect to {}", label(to)));
  }
  void take_all_from(std::size_t from) {
    take(failed_pairs([from](const HostPair& pair) { return pair.first == from; }), tried_from_[from], from,
         fmt::format("{} can connect to no other host", label(from)));
  }
  void take(const std::vector<HostPair>& pairs, std::size_t tried, std::size_t host,
            const std::string& words) {
    if (pairs.size() < 2 || pairs.size() < tried) return;
    const agent::Attempt& first = *failed_.at(pairs.front());
    const bool to = pairs.front().second == host;
    const bool harmless =
        std::ranges::all_of(pairs, [this](const HostPair& pair) { return is_harmless(pair); });
    const std::string others = "the others";
    problems_.push_back({harmless ? Severity::warning : Severity::error,
                         {label(host)},
                         fmt::format("{}{}; from {} {}", words, harmless ? kHarmless : "",
                                     label(pairs.front().first), said(first)),
                         connect_fix(findings_, to ? others : label(host), to ? label(host) : others, first,
                                     label(pairs.front().first))});
    for (const HostPair& pair : pairs) failed_.erase(pair);
  }

  /// The other direction works, and of two ranks the smaller connects to the larger.
  bool is_harmless(const HostPair& pair) const {
    const auto& [from, to] = pair;
    return path_between(findings_, to, from).reached != nullptr &&
           findings_.hosts[from].first_rank > findings_.hosts[to].last_rank;
  }

  void take_single() {
    std::vector<Problem> errors, warnings;
    for (const auto& [pair, attempt] : failed_) {
      const auto& [from, to] = pair;
      const bool back = path_between(findings_, to, from).reached != nullptr, harmless = is_harmless(pair);
      (harmless ? warnings : errors)
          .push_back({harmless ? Severity::warning : Severity::error,
                      {label(from), label(to)},
                      fmt::format("{} can not connect to {}{}{}; {}", label(from), label(to),
                                  back ? fmt::format(" (but {} to {})", label(to), label(from)) : "",
                                  harmless ? kHarmless : "", said(*attempt)),
                      connect_fix(findings_, label(from), label(to), *attempt, label(from))});
    }
    for (Problem& one : bounded(std::move(errors), Severity::error, "pairs of hosts can not connect"))
      problems_.push_back(std::move(one));
    for (Problem& one :
         bounded(std::move(warnings), Severity::warning, "pairs of hosts connect one way only"))
      problems_.push_back(std::move(one));
  }

  const Findings& findings_;
  std::map<std::size_t, std::size_t> tried_from_, tried_to_;
  std::map<HostPair, const agent::Attempt*> failed_;
  std::vector<Problem> problems_;
};

void add_store_problems(const Findings& findings, std::vector<Problem>& problems) {
  for (const HostFindings& host : findings.hosts) {
    const Path path = path_to_store(host);
    if (!path.tried() || path.reached != nullptr) continue;
    problems.push_back(
        {Severity::error,
         {host.label},
         fmt::format("{} can not connect to this host, where ranks meet; {}", host.label, said(*path.failed)),
         connect_fix(findings, host.label, "this host", *path.failed, host.label)});
  }
}

/// The network as text: what its addresses have in common.
std::string network_of(const NicFacts& nic) {
  auto ip = parse_ip(nic.address);
  if (!ip.ok()) return {};
  for (std::size_t bit = nic.prefix_bits; bit < ip->length * std::size_t{8}; ++bit)
    ip->bytes[bit / 8] &= static_cast<std::uint8_t>(~(0x80U >> bit % 8));
  return fmt::format("{}/{}", ip->text(), nic.prefix_bits);
}

/// The network of `facts`' that an address is in, as text; empty when it is in none that ranks may use.
std::string shared_network(const HostFacts& facts, const std::string& address) {
  const auto ip = parse_ip(address);
  for (const NicFacts& nic : facts.nics) {
    const auto own = parse_ip(nic.address);
    if (nic.chosen && ip.ok() && own.ok() && own->length == ip->length &&
        same_network(*own, *ip, nic.prefix_bits))
      return network_of(nic);
  }
  return {};
}

/// What does not work in a network of two hosts, though they reach each other at other addresses.
struct DeadWays {
  std::size_t count = 0;
  std::string example;
  std::vector<std::string> hosts;
};

std::map<std::string, DeadWays> dead_ways(const Findings& findings) {
  std::map<std::string, DeadWays> by_network;
  for (std::size_t from = 0; from < findings.hosts.size(); ++from) {
    const HostFindings& host = findings.hosts[from];
    if (!host.facts) continue;
    for (const agent::Attempt& one : host.attempts) {
      const bool failed = !one.reached && one.why_not != kNoTime;
      if (!failed || one.store || one.host >= findings.hosts.size()) continue;
      const HostFindings& other = findings.hosts[one.host];
      if (!other.facts || other.lost || path_between(findings, from, one.host).reached == nullptr) continue;
      const std::string address = host_in(one.address);
      // An address that this host has too (docker0's) leads back to itself.
      if (nic_with(*host.facts, address) != nullptr) continue;
      const std::string network = shared_network(*host.facts, address);
      if (network.empty()) continue;
      DeadWays& ways = by_network[network];
      const NicFacts* nic = nic_with(*other.facts, address);
      if (ways.count++ == 0)
        ways.example = fmt::format("from {} to {} ({} of {})", host.label, one.address,
                                   nic == nullptr ? "an interface" : nic->name, other.label);
      for (const std::string& label : {host.label, other.label})
        if (std::find(ways.hosts.begin(), ways.hosts.end(), label) == ways.hosts.end())
          ways.hosts.push_back(label);
    }
  }
  return by_network;
}

void add_dead_addresses(const Findings& findings, std::vector<Problem>& problems) {
  for (const auto& [network, ways] : dead_ways(findings))
    problems.push_back(
        {Severity::warning, ways.hosts,
         fmt::format("in {} a connection fails {}{}; others between these hosts work", network, ways.example,
                     ways.count > 1 ? fmt::format(", and {} more do", ways.count - 1) : ""),
         fmt::format(
             "repair that network, or keep ranks off it with --net ^{}; with RONDEL_PORTS, let all of "
             "its ports through",
             network)});
}

void add_uneven_mtus(const Findings& findings, std::vector<Problem>& problems) {
  std::map<std::string, std::map<std::uint32_t, std::vector<std::string>>> hosts_of;  // by network and MTU
  std::map<std::string, std::set<std::string>> addresses;
  for (const HostFindings& host : findings.hosts) {
    if (!host.facts) continue;
    for (const NicFacts& nic : host.facts->nics) {
      if (!nic.chosen || nic.mtu == 0) continue;
      hosts_of[network_of(nic)][nic.mtu].push_back(host.label);
      addresses[network_of(nic)].insert(nic.address);
    }
  }
  for (const auto& [network, by_mtu] : hosts_of) {
    if (by_mtu.size() < 2 || addresses[network].size() < 2) continue;  // docker0's is one address everywhere
    const auto rarest = std::min_element(by_mtu.begin(), by_mtu.end(), [](const auto& one, const auto& two) {
      return one.second.size() < two.second.size();
    });
    std::string text;
    for (const auto& [mtu, hosts] : by_mtu)
      text += fmt::format("{}{} on {}{}", text.empty() ? "" : ", ", mtu, hosts.front(),
                          hosts.size() > 1 ? fmt::format(" and {} more", hosts.size() - 1) : "");
    problems.push_back({Severity::warning, rarest->second,
                        fmt::format("hosts of {} differ in MTU: {}; larger packets get lost", network, text),
                        "give all the same: ip link set dev NAME mtu N"});
  }
}

template <class Value>
double median(std::vector<Value> values) {
  if (values.empty()) return 0;
  const auto middle = values.begin() + static_cast<std::ptrdiff_t>(values.size() / 2);
  std::nth_element(values.begin(), middle, values.end());
  return static_cast<double>(*middle);
}

/// Of a full packet, without its headers.
std::uint32_t ping_bytes(const agent::Measured& result) {
  constexpr std::uint32_t kHeaders = 28, kUsual = 1500;
  return (result.path_mtu > kHeaders ? result.path_mtu : kUsual) - kHeaders;
}

void add_failed_measurement(const Findings& findings, const MeasuredPair& pair,
                            std::vector<Problem>& problems) {
  const std::string& from = findings.hosts[pair.from].label;
  const std::string& to = findings.hosts[pair.to].label;
  if (pair.result.round_trip_ns == 0)
    return problems.push_back({Severity::error,
                               {from, to},
                               fmt::format("{} reached {} at {} at first, but not again: {}", from, to,
                                           pair.address, pair.result.why_not),
                               "look for a loose link, or a limit on new connections in a firewall"});
  problems.push_back(
      {Severity::error,
       {from, to},
       fmt::format("small messages pass from {} to {}, large ones do not: {}", from, to, pair.result.why_not),
       fmt::format("full packets get lost on the way: give the interfaces of both, and what "
                   "lies between, the same MTU, and let ICMP pass; 'ping -M do -s {} {}' on "
                   "{} tries it",
                   ping_bytes(pair.result), host_in(pair.address), from)});
}

}  // namespace

std::vector<Problem> problems_of_pairs(const Findings& findings) {
  std::vector<Problem> problems;
  add_store_problems(findings, problems);
  for (Problem& one : Unreached(findings).problems()) problems.push_back(std::move(one));
  add_dead_addresses(findings, problems);
  add_uneven_mtus(findings, problems);
  return problems;
}

std::vector<Problem> problems_of_speed(const Findings& findings) {
  std::vector<Problem> failures, slow_ways;
  std::vector<double> rates, times;
  for (const MeasuredPair& pair : findings.measured) {
    const bool known = findings.hosts[pair.from].lost || findings.hosts[pair.to].lost;
    if (!pair.result.why_not.empty() && !known) add_failed_measurement(findings, pair, failures);
    if (const double rate = bandwidth_of(pair.result); rate > 0) rates.push_back(rate);
    if (pair.result.round_trip_ns > 0) times.push_back(static_cast<double>(pair.result.round_trip_ns));
  }
  const double usual_rate = median(rates), usual_time = median(times);
  for (const MeasuredPair& pair : findings.measured) {
    const double rate = bandwidth_of(pair.result), time = static_cast<double>(pair.result.round_trip_ns);
    const bool slow = rate > 0 && usual_rate >= kLeastMedian && rate * kSlowShare < usual_rate;
    const bool late = time > kSlowRoundTrip_ns && time > kSlowShare * usual_time;
    if (!slow && !late) continue;
    const std::string& from = findings.hosts[pair.from].label;
    const std::string& to = findings.hosts[pair.to].label;
    slow_ways.push_back(
        {Severity::warning,
         {from, to},
         fmt::format("from {} to {} it is {} Gbit/s and {:.2f} ms there and back; between "
                     "other hosts {} Gbit/s and {:.2f} ms",
                     from, to, gigabits(rate), time / 1e6, gigabits(usual_rate), usual_time / 1e6),
         "look at link speed and errors (ethtool, ip -s link), and for other traffic; the "
         "slowest pair sets a job's pace"});
  }
  auto problems = bounded(std::move(failures), Severity::error, "pairs of hosts could not be measured");
  for (Problem& one : bounded(std::move(slow_ways), Severity::warning, "pairs of hosts are as slow"))
    problems.push_back(std::move(one));
  return problems;
}

}  // namespace rondel::doctor
