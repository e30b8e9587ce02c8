// SPDX-License-Identifier: Apache-2.0
#include "lib/process_facts.h"

#include <fmt/format.h>
#include <unistd.h>

#include <algorithm>
#include <cstdio>

#include "lib/system_files.h"

namespace rondel {
namespace {

constexpr std::size_t kMostAncestors = 64;

}  // namespace

std::optional<ProcessFacts> process_facts(pid_t pid) {
  const std::string stat = whole_text(fmt::format("/proc/{}/stat", pid));
  const auto name_end = stat.rfind(')');  // the name before it may hold anything
  if (name_end == std::string::npos) return std::nullopt;
  ProcessFacts facts;
  pid_t group = -1;
  if (std::sscanf(stat.c_str() + name_end + 1, " %c %d %d %d", &facts.state, &facts.parent, &group,
                  &facts.session) != 4)
    return std::nullopt;
  return facts;
}

std::string environment_of(pid_t pid) {
  return whole_text(fmt::format("/proc/{}/environ", pid), std::string::npos);
}

std::optional<std::string_view> value_in(std::string_view environment, std::string_view name) {
  for (std::size_t at = 0; at < environment.size();) {
    const std::size_t end = std::min(environment.find('\0', at), environment.size());
    const std::string_view entry = environment.substr(at, end - at);
    if (entry.size() > name.size() && entry.starts_with(name) && entry[name.size()] == '=')
      return entry.substr(name.size() + 1);
    at = end + 1;
  }
  return std::nullopt;
}

std::vector<std::string> environments_upwards() {
  std::vector<std::string> environments;
  pid_t pid = ::getpid();
  while (pid > 0 && environments.size() < kMostAncestors) {
    std::string environment = environment_of(pid);
    if (environment.empty()) break;
    environments.push_back(std::move(environment));
    pid = process_facts(pid).value_or(ProcessFacts{}).parent;
  }
  return environments;
}

}  // namespace rondel
