// SPDX-License-Identifier: Apache-2.0
#include "launcher/doctor/report_json.h"

#include <algorithm>
#include <nlohmann/json.hpp>

#include "launcher/doctor/facts_json.h"

namespace rondel::doctor {
namespace {

using Json = nlohmann::ordered_json;

Json text_or_null(const std::string& text) { return text.empty() ? Json() : Json(text); }

Json attempts_json(const HostFindings& host, bool store, std::size_t to) {
  Json list = Json::array();
  for (const agent::Attempt& one : host.attempts) {
    if (one.store != store || (!store && one.host != to)) continue;
    list.push_back(
        {{"address", one.address}, {"reached", one.reached}, {"why_not", text_or_null(one.why_not)}});
  }
  return list;
}

Json host_json(const HostFindings& host) {
  Json json;
  json["host"] = host.label;
  json["own_name"] = text_or_null(host.own_name);
  json["ranks"] = host.ranks;
  json["launcher"] = host.is_launchers;
  json["lost"] = host.lost ? Json(*host.lost) : Json();
  json["clock_ahead_s"] = host.clock ? Json(static_cast<double>(host.clock->ahead_ns) / 1e9) : Json();
  json["clock_uncertain_s"] = host.clock ? Json(static_cast<double>(host.clock->uncertain_ns) / 1e9) : Json();
  json["to_launcher"] = attempts_json(host, true, 0);
  json["facts"] = host.facts ? to_json(*host.facts) : Json();
  return json;
}

Json pair_json(const Findings& findings, std::size_t from, std::size_t to) {
  const Path path = path_between(findings, from, to);
  Json json;
  json["from"] = findings.hosts[from].label;
  json["to"] = findings.hosts[to].label;
  json["tried"] = path.tried();
  json["reached"] = path.reached != nullptr;
  json["addresses"] = attempts_json(findings.hosts[from], false, to);
  json["measured"] = Json();
  const MeasuredPair* pair = measured_between(findings, from, to);
  if (pair == nullptr) return json;
  const agent::Measured& result = pair->result;
  const double rate = bandwidth_of(result);
  json["measured"] = {
      {"address", pair->address},
      {"round_trip_us",
       result.round_trip_ns == 0 ? Json() : Json(static_cast<double>(result.round_trip_ns) / 1000)},
      {"bits_per_second", rate > 0 ? Json(rate) : Json()},
      {"bytes", result.bytes},
      {"path_mtu", result.path_mtu == 0 ? Json() : Json(result.path_mtu)},
      {"why_not", text_or_null(result.why_not)}};
  return json;
}

Json problem_json(const Problem& problem) {
  return {{"severity", problem.severity == Severity::error ? "error" : "warning"},
          {"hosts", problem.hosts},
          {"problem", problem.words},
          {"fix", problem.fix}};
}

}  // namespace

std::string report_json(const Findings& findings, std::span<const Problem> problems) {
  Json json;
  json["version"] = findings.version;
  json["ok"] = std::none_of(problems.begin(), problems.end(),
                            [](const Problem& one) { return one.severity == Severity::error; });
  json["seconds"] = findings.seconds;
  json["ranks"] = findings.ranks;
  json["net"] = text_or_null(findings.net);
  json["ports"] = text_or_null(findings.ports);
  json["transport"] = text_or_null(findings.transport);
  for (const char* list : {"hosts", "pairs", "problems"}) json[list] = Json::array();
  for (const HostFindings& host : findings.hosts) json["hosts"].push_back(host_json(host));
  for (std::size_t from = 0; from < findings.hosts.size(); ++from)
    for (std::size_t to = 0; to < findings.hosts.size(); ++to)
      if (from != to) json["pairs"].push_back(pair_json(findings, from, to));
  for (const Problem& problem : problems) json["problems"].push_back(problem_json(problem));
  json["pairs_not_measured"] = findings.unmeasured;
  json["notes"] = findings.notes;
  json["next"] = text_or_null(findings.next);
  return json.dump(2, ' ', false, Json::error_handler_t::replace) + "\n";
}

}  // namespace rondel::doctor
