// SPDX-License-Identifier: Apache-2.0
#include "launcher/job_plan.h"

#include <fmt/format.h>

#include <algorithm>
#include <nlohmann/json.hpp>

#include "lib/config.h"

namespace rondel {
namespace {

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

}  // namespace

Result<JobPlan> make_plan(const Options& options, std::span<const std::string> inherited,
                          const std::string& host) {
  const std::vector<Host> hosts{{.name = host, .slots = options.ranks}};
  auto places = place(hosts, {.ranks = options.ranks});
  if (!places.ok()) return std::move(places).status();
  auto environment = base_environment(inherited, options.exports, options.only_exports);
  if (!environment.ok()) return std::move(environment).status();
  JobPlan plan{.host = host,
               .places = *std::move(places),
               .program = options.program,
               .environment = *std::move(environment),
               .directory = options.directory,
               .stdin_rank = options.stdin_rank};
  const auto config = config_of(plan);
  if (!config.ok()) return config.status();
  plan.start_timeout = config->start_timeout;
  plan.log_level = config->log_level;
  return plan;
}

std::string plan_text(const JobPlan& plan) {
  std::string text = "program:";
  for (const std::string& word : plan.program) text += " " + word;
  text += "\ndirectory: " + (plan.directory.empty() ? "the current one" : plan.directory);
  text += "\nstandard input: " + (plan.stdin_rank ? "rank " + std::to_string(*plan.stdin_rank) : "nobody");
  text += fmt::format("\nenvironment: {} variables; set by -x:", plan.environment.variables.size());
  for (const std::string& name : plan.environment.chosen) text += " " + name;
  text += fmt::format("{}\n{:>6}  {:<24} {}\n", plan.environment.chosen.empty() ? " none" : "", "rank",
                      "host", "local rank");
  for (const RankPlace& place : plan.places)
    text +=
        fmt::format("{:>6}  {:<24} {} of {}\n", place.rank, plan.host, place.local_rank, place.local_size);
  return text;
}

std::string plan_json(const JobPlan& plan) {
  nlohmann::ordered_json json;
  json["program"] = plan.program;
  json["directory"] =
      plan.directory.empty() ? nlohmann::ordered_json() : nlohmann::ordered_json(plan.directory);
  json["stdin_rank"] = plan.stdin_rank ? nlohmann::ordered_json(*plan.stdin_rank) : nlohmann::ordered_json();
  json["size"] = plan.places.size();
  json["exports"] = plan.environment.chosen;
  for (const RankPlace& place : plan.places)
    json["ranks"].push_back({{"rank", place.rank},
                             {"host", plan.host},
                             {"local_rank", place.local_rank},
                             {"local_size", place.local_size}});
  return json.dump(2, ' ', false, nlohmann::ordered_json::error_handler_t::replace) + "\n";
}

}  // namespace rondel
