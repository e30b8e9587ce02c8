// SPDX-License-Identifier: Apache-2.0
#include "launcher/job_plan.h"

#include <arpa/inet.h>
#include <fmt/format.h>

#include <algorithm>
#include <nlohmann/json.hpp>

#include "launcher/visible_text.h"
#include "lib/config.h"

namespace rondel {
namespace {

bool is_loopback(const std::string& name) {
  in_addr address{};
  const bool ipv4 = ::inet_pton(AF_INET, name.c_str(), &address) == 1;
  return name == "localhost" || name == "::1" || (ipv4 && ntohl(address.s_addr) >> 24 == 127);
}

/// Whether two names are one, be one of them short: "node" is "node.example", which is not "node.other".
bool same_name(const std::string& one, const std::string& other) {
  const auto dot_one = one.find('.'), dot_other = other.find('.');
  if ((dot_one == std::string::npos) == (dot_other == std::string::npos)) return one == other;
  return one.substr(0, dot_one) == other.substr(0, dot_other);
}

/// Another user, or another port of ours (a container's, say), takes ssh.
bool is_this_host(const Host& host, const std::string& own_name) {
  if (!host.user.empty() || host.ssh_port != 0) return false;
  const std::string name = lower_case(host.name);
  return is_loopback(name) || same_name(name, lower_case(own_name));
}

/// Reads the variables as a rank would.
Result<Config> config_of(const JobPlan& plan) {
  const JobContact sample{
      .job = "job", .store = "tcp://127.0.0.1:1", .master_address = "127.0.0.1", .master_port = 1};
  const auto variables = rank_environment(plan.environment, plan.places.front(), sample, 3);
  const auto lookup = [&variables](const char* name) -> const char* {
    const std::string start = std::string(name) + "=";
    const auto found = std::find_if(variables.begin(), variables.end(),
                                    [&start](const std::string& entry) { return entry.starts_with(start); });
    return found == variables.end() ? nullptr : found->c_str() + start.size();
  };
  return Config::from_lookup(lookup);
}

/// The job's hosts, with all names of this one as one host. invalid_argument when it has too many slots then.
Result<std::vector<Host>> hosts_of(const Options& options, const std::string& own_name) {
  if (options.hosts.empty() && options.ranks == 0 && options.per_host == 0)
    return Status(Code::invalid_argument, "the number of ranks is missing", "add -np N before the program");
  if (options.hosts.empty())
    return std::vector<Host>{{.name = own_name, .slots = std::max(options.ranks, options.per_host)}};
  HostRoster roster;
  for (Host host : options.hosts) {
    if (is_this_host(host, own_name)) host.name = own_name;
    RONDEL_TRY(roster.add({&host, 1}));
  }
  return roster.take();
}

Status check_stdin(std::optional<Rank> rank, std::size_t ranks) {
  if (!rank || static_cast<std::size_t>(*rank) < ranks) return {};
  return Status(Code::invalid_argument,
                fmt::format("--stdin: found \"{}\", expected none or a rank from 0 to {}", *rank, ranks - 1));
}

std::optional<std::size_t> find_local(const std::vector<Host>& hosts, const std::string& own_name) {
  const auto found = std::find_if(hosts.begin(), hosts.end(),
                                  [&own_name](const Host& host) { return is_this_host(host, own_name); });
  if (found == hosts.end()) return std::nullopt;
  return static_cast<std::size_t>(found - hosts.begin());
}

/// What is known of a rank's cores: which, on this host; on others only what will be asked for.
std::string cpus_of(const JobPlan& plan, const RankPlace& place) {
  const auto local = static_cast<std::size_t>(place.local_rank);
  return plan.is_local(place.host) && local < plan.local_bindings.size()
             ? cpu_list(plan.local_bindings[local])
             : std::string();
}

std::string binding_text(const JobPlan& plan, const RankPlace& place) {
  if (plan.bind_to == BindTo::none) return {};
  const std::string cpus = cpus_of(plan, place);
  if (!cpus.empty()) return "  bound to cpus " + cpus;
  return fmt::format("  bound there, --bind-to {}", name_of(plan.bind_to));
}

}  // namespace

std::string label_of(const Host& host) {
  return name_of(host) + (host.ssh_port == 0 ? "" : fmt::format(" port {}", host.ssh_port));
}

bool JobPlan::leaves_this_host() const {
  return std::any_of(places.begin(), places.end(),
                     [this](const RankPlace& place) { return !is_local(place.host); });
}

bool JobPlan::uses_this_host() const {
  return std::any_of(places.begin(), places.end(),
                     [this](const RankPlace& place) { return is_local(place.host); });
}

Result<JobPlan> make_plan(const Options& options, std::span<const std::string> inherited,
                          const std::string& host) {
  auto hosts = hosts_of(options, host);
  if (!hosts.ok()) return std::move(hosts).status();
  auto places = place(*hosts, {.ranks = options.ranks,
                               .per_host = options.per_host,
                               .map_by = options.map_by,
                               .oversubscribe = options.oversubscribe});
  if (!places.ok()) return std::move(places).status();
  RONDEL_TRY(check_stdin(options.stdin_rank, places->size()));
  auto environment = base_environment(inherited, options.exports, options.only_exports);
  if (!environment.ok()) return std::move(environment).status();
  const auto local = find_local(*hosts, host);
  JobPlan plan{.host = host,
               .hosts = *std::move(hosts),
               .local_host = local,
               .places = *std::move(places),
               .program = options.program,
               .environment = *std::move(environment),
               .directory = options.directory,
               .stdin_rank = options.stdin_rank,
               .bind_to = options.binding.to};
  const auto config = config_of(plan);
  if (!config.ok()) return config.status();
  plan.start_timeout = config->start_timeout;
  plan.log_level = config->log_level;
  plan.silence = config->silence_timeout;
  plan.net = config->net;
  plan.transport = config->transport;
  plan.ports = config->port_range;
  plan.encrypt = config->encrypt;
  return plan;
}

namespace {

/// So that one can tell where a word ends, and no terminal acts on it.
std::string shown(const std::string& word) {
  constexpr std::size_t kMostBytes = 4096;
  const bool plain = !word.empty() && std::ranges::all_of(word, [](char letter) {
    return letter > ' ' && letter <= '~' && letter != '"' && letter != '\\';
  });
  return plain ? word : visible(word, kMostBytes);
}

}  // namespace

std::string plan_text(const JobPlan& plan) {
  std::string text = "program:";
  for (const std::string& word : plan.program) text += " " + shown(word);
  text += "\ndirectory: " + (plan.directory.empty() ? "the current one" : shown(plan.directory));
  text += "\nstandard input: " + (plan.stdin_rank ? "rank " + std::to_string(*plan.stdin_rank) : "nobody");
  text += fmt::format("\nenvironment: {} variables; set by -x:", plan.environment.variables.size());
  for (const std::string& name : plan.environment.chosen) text += " " + name;
  text += fmt::format("{}\n{:>6}  {:<24} {}\n", plan.environment.chosen.empty() ? " none" : "", "rank",
                      "host", "local rank");
  for (const RankPlace& place : plan.places)
    text += fmt::format("{:>6}  {:<24} {} of {}{}\n", place.rank, label_of(plan.hosts[place.host]),
                        place.local_rank, place.local_size, binding_text(plan, place));
  return text;
}

std::string plan_json(const JobPlan& plan) {
  using Json = nlohmann::ordered_json;
  Json json;
  json["program"] = plan.program;
  json["directory"] = plan.directory.empty() ? Json() : Json(plan.directory);
  json["stdin_rank"] = plan.stdin_rank ? Json(*plan.stdin_rank) : Json();
  json["size"] = plan.places.size();
  json["bind_to"] = name_of(plan.bind_to);
  json["exports"] = plan.environment.chosen;
  for (const Host& host : plan.hosts)
    json["hosts"].push_back({{"name", host.name},
                             {"user", host.user.empty() ? Json() : Json(host.user)},
                             {"ssh_port", host.ssh_port == 0 ? Json() : Json(host.ssh_port)},
                             {"slots", host.slots}});
  for (const RankPlace& place : plan.places)
    json["ranks"].push_back({{"rank", place.rank},
                             {"host", label_of(plan.hosts[place.host])},
                             {"host_index", place.host},
                             {"local_rank", place.local_rank},
                             {"local_size", place.local_size},
                             {"cpus", cpus_of(plan, place).empty() ? Json() : Json(cpus_of(plan, place))},
                             {"cross_rank", place.cross_rank},
                             {"cross_size", place.cross_size}});
  return json.dump(2, ' ', false, Json::error_handler_t::replace) + "\n";
}

}  // namespace rondel
