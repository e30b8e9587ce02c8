// SPDX-License-Identifier: Apache-2.0
#include "launcher/doctor/diagnosis.h"

#include <fmt/format.h>

#include <algorithm>
#include <map>
#include <set>

namespace rondel::doctor {
namespace {

constexpr std::size_t kMostNamed = 6;

std::string named(const std::vector<std::string>& hosts) {
  std::string text;
  for (std::size_t i = 0; i < std::min(hosts.size(), kMostNamed); ++i)
    text += (text.empty() ? "" : ", ") + hosts[i];
  return hosts.size() > kMostNamed ? fmt::format("{} and {} more", text, hosts.size() - kMostNamed) : text;
}

/// Hosts with the same problem have it together.
std::vector<Problem> merged(const std::vector<Problem>& problems) {
  std::vector<Problem> out;
  for (const Problem& one : problems) {
    const auto same = std::find_if(out.begin(), out.end(), [&one](const Problem& other) {
      return one.severity == other.severity && one.words == other.words && one.fix == other.fix;
    });
    if (same == out.end())
      out.push_back(one);
    else
      same->hosts.insert(same->hosts.end(), one.hosts.begin(), one.hosts.end());
  }
  for (Problem& one : out) one.words = fmt::format("{}: {}", named(one.hosts), one.words);
  return out;
}

/// Several names of one machine: each would begin to count its ranks, and its devices, at 0.
void add_twins(const Findings& findings, std::vector<Problem>& problems) {
  std::map<std::string, std::vector<std::string>> labels_of_machine;
  for (const HostFindings& host : findings.hosts)
    if (!host.machine.empty()) labels_of_machine[host.machine].push_back(host.label);
  for (const auto& [machine, labels] : labels_of_machine)
    if (labels.size() > 1)
      problems.push_back(
          {Severity::warning, labels,
           fmt::format("{} are one machine, whose local ranks are counted more than once", named(labels)),
           "give it one name"});
}

/// A transport counts when every host has it.
void add_uneven_transports(const Findings& findings, std::vector<Problem>& problems) {
  std::set<std::string> names;
  for (const HostFindings& host : findings.hosts)
    if (host.facts)
      for (const TransportFacts& one : host.facts->transports)
        if (one.usable) names.insert(one.name);
  for (const std::string& name : names) {
    std::vector<std::string> without, with;
    std::string why;
    for (const HostFindings& host : findings.hosts) {
      const TransportFacts* one = host.facts ? transport_of(*host.facts, name) : nullptr;
      if (one == nullptr) continue;
      (one->usable ? with : without).push_back(host.label);
      if (!one->usable && why.empty()) why = one->why_not;
    }
    if (without.empty()) continue;
    problems.push_back({Severity::warning, without,
                        fmt::format("{} is usable on {} but not on {}, so no job that runs on both uses it: "
                                    "{}",
                                    name, named(with), named(without), why),
                        "look at rondelrun --check-build there"});
  }
}

/// The transport that was asked for is usable on each host, and does not lead from one to another.
void add_parted_hosts(const Findings& findings, std::vector<Problem>& problems) {
  if (findings.transport.empty()) return;
  const HostFindings* first = nullptr;
  for (const HostFindings& host : findings.hosts) {
    const TransportFacts* one = host.facts ? transport_of(*host.facts, findings.transport) : nullptr;
    if (one == nullptr || !one->usable) continue;
    if (first == nullptr) first = &host;
    if (one->domain == transport_of(*first->facts, findings.transport)->domain) continue;
    return problems.push_back(
        {Severity::error,
         {first->label, host.label},
         fmt::format("the transport {} that was asked for joins {} only, which {} and {} are not", one->name,
                     one->joins.empty() ? "hosts of one domain" : one->joins, first->label, host.label),
         "choose another one with --transport, or none"});
  }
}

}  // namespace

std::vector<Problem> diagnose(const Findings& findings) {
  std::vector<Problem> of_hosts, problems;
  for (const OwnProblem& own : findings.own_problems)
    problems.push_back({Severity::error, {}, own.words, own.fix});
  for (const HostFindings& host : findings.hosts)
    for (Problem& one : problems_of_host(findings, host)) of_hosts.push_back(std::move(one));
  for (Problem& one : merged(of_hosts)) problems.push_back(std::move(one));
  add_twins(findings, problems);
  add_uneven_transports(findings, problems);
  add_parted_hosts(findings, problems);
  for (auto* part : {&problems_of_pairs, &problems_of_speed})
    for (Problem& one : part(findings)) problems.push_back(std::move(one));
  std::stable_sort(problems.begin(), problems.end(),
                   [](const Problem& one, const Problem& other) { return one.severity < other.severity; });
  return problems;
}

}  // namespace rondel::doctor
