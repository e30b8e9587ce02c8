// SPDX-License-Identifier: Apache-2.0
#include "launcher/job_order.h"

#include <algorithm>
#include <chrono>
#include <filesystem>
#include <string_view>
#include <system_error>

#include "launcher/resources.h"
#include "lib/config.h"
#include "lib/store/socket.h"

namespace rondel {
namespace {

using std::chrono::milliseconds;

constexpr milliseconds kMostPatience{20'000};  // of an agent that looks for the store

constexpr std::string_view kPath = "PATH=";

/// The same place on every host, whatever directory a login begins in.
std::string absolute(const std::string& directory) {
  std::error_code error;
  if (directory.empty()) return std::filesystem::current_path(error).string();
  return std::filesystem::absolute(directory, error).lexically_normal().string();
}

/// Empty: rank 0's host is the launcher's, which each other host reaches at the address of the store.
std::string master_address(const OrderFacts& facts, bool local) {
  if (!facts.head_is_local) return facts.head.address;
  if (!local) return {};
  return facts.addresses.empty() ? kLoopback : store::parse_address(facts.addresses.front())->host;
}

}  // namespace

std::string search_path_of(std::span<const std::string> variables) {
  const auto found = std::find_if(variables.begin(), variables.end(),
                                  [](const std::string& entry) { return entry.starts_with(kPath); });
  if (found != variables.end()) return found->substr(kPath.size());
  const char* own = environment_variable("PATH");
  return own == nullptr ? "/usr/local/bin:/usr/bin:/bin" : own;
}

agent::Order make_order(const Options& options, const JobPlan& plan, const OrderFacts& facts,
                        const Secret& secret, std::span<const RankPlace> ranks, bool local) {
  agent::Order order;
  order.ranks.assign(ranks.begin(), ranks.end());
  order.program = plan.program;
  order.environment = local ? plan.environment : for_other_host(plan.environment);
  order.own_variables = !local && !options.only_exports;
  order.search_path = search_path_of(plan.environment.variables);
  order.contact = {.job = facts.job,
                   .store = {},
                   .master_address = master_address(facts, local),
                   .master_port = facts.head.free_port};
  if (local)
    order.stores = {facts.own_store};
  else
    order.stores.assign(facts.addresses.begin(), facts.addresses.end());
  order.secret.assign(secret.bytes().begin(), secret.bytes().end());
  order.directory = local ? plan.directory : absolute(plan.directory);
  if (plan.stdin_rank && !(local && facts.input_is_taken)) {
    order.input = local ? agent::Input::inherited : agent::Input::forwarded;
    order.input_rank = *plan.stdin_rank;
  }
  order.binding = options.binding;
  order.output_window = facts.output_window;
  order.grace = options.kill_grace;
  order.patience = std::min(plan.start_timeout, kMostPatience);
  order.silence = local ? milliseconds(0) : plan.silence + kAfterSilence;
  return order;
}

}  // namespace rondel
