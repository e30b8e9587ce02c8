// SPDX-License-Identifier: Apache-2.0
#include "launcher/environment.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <map>

#include "lib/starters.h"

namespace rondel {
namespace {

struct RankFacts {
  const RankPlace& place;
  const JobContact& contact;
  int secret_fd;
};

struct Row {
  RankVariable variable;
  bool user_may_choose;  // -x NAME=value wins over ours
  std::string (*value)(const RankFacts&);
};

std::string rank_of(const RankFacts& facts) { return std::to_string(facts.place.rank); }
std::string size_of(const RankFacts& facts) { return std::to_string(facts.place.size); }
std::string local_rank_of(const RankFacts& facts) { return std::to_string(facts.place.local_rank); }
std::string local_size_of(const RankFacts& facts) { return std::to_string(facts.place.local_size); }

constexpr std::array kRows{
    Row{{"RONDEL_RANK", "rank of this process, from 0"}, false, rank_of},
    Row{{"RONDEL_SIZE", "ranks in the job"}, false, size_of},
    Row{{"RONDEL_LOCAL_RANK", "place among the ranks of this host, from 0"}, false, local_rank_of},
    Row{{"RONDEL_LOCAL_SIZE", "ranks of the job on this host"}, false, local_size_of},
    Row{{"RONDEL_STORE", "address of the job's key-value store"},
        false,
        [](const RankFacts& facts) { return facts.contact.store; }},
    Row{{"RONDEL_JOB", "unique name of the job"},
        false,
        [](const RankFacts& facts) { return facts.contact.job; }},
    Row{{"RONDEL_SECRET_FD", "descriptor from which the job secret is read"},
        false,
        [](const RankFacts& facts) { return std::to_string(facts.secret_fd); }},
    Row{{"RANK", "as RONDEL_RANK, for programs written for torchrun"}, false, rank_of},
    Row{{"WORLD_SIZE", "as RONDEL_SIZE"}, false, size_of},
    Row{{"LOCAL_RANK", "as RONDEL_LOCAL_RANK"}, false, local_rank_of},
    Row{{"LOCAL_WORLD_SIZE", "as RONDEL_LOCAL_SIZE"}, false, local_size_of},
    Row{{"MASTER_ADDR",
         "address of rank 0's host, for frameworks that bring their own store (-x may choose it)"},
        true,
        [](const RankFacts& facts) { return facts.contact.master_address; }},
    Row{{"MASTER_PORT", "a port that was free on that host at start (-x may choose it)"},
        true,
        [](const RankFacts& facts) { return std::to_string(facts.contact.master_port); }},
};

const Row* find_row(std::string_view name) {
  const auto row = std::find_if(kRows.begin(), kRows.end(),
                                [name](const Row& each) { return each.variable.name == name; });
  return row == kRows.end() ? nullptr : &*row;
}

std::string_view name_in(std::string_view entry) { return entry.substr(0, entry.find('=')); }

Status check_name(std::string_view name, std::string_view argument) {
  if (name.empty() || name == "*")
    return Status(Code::invalid_argument, fmt::format("-x {} names no variable", argument),
                  "write -x NAME, -x NAME=value or -x 'PREFIX*'; --env-none turns inheriting off");
  const Row* row = find_row(name);
  if (row != nullptr && !row->user_may_choose)
    return Status(Code::invalid_argument,
                  fmt::format("-x {}: rondelrun sets {} for each rank itself", argument, name),
                  "leave it out");
  return {};
}

/// What srun, hydra or mpirun told rondelrun of its own place, if one of them started it. A rank is another
/// process: with these gone, what it finds of the kind was set inside it.
bool is_place_elsewhere(std::string_view name) {
  constexpr std::array<std::string_view, 5> kNames{starters::kSlurm.rank, starters::kPmi.rank,
                                                   starters::kPmi.mark, starters::kOpenMpi.rank,
                                                   starters::kPmix.rank};
  return std::find(kNames.begin(), kNames.end(), name) != kNames.end();
}

/// The variables by name, in a fixed order, as they are collected.
using Collected = std::map<std::string, std::string, std::less<>>;

Status export_one(const std::string& argument, std::span<const std::string> inherited, Collected& collected,
                  BaseEnvironment& base) {
  const std::string name(name_in(argument));
  RONDEL_TRY(check_name(name, argument));
  if (name.ends_with('*') && name.size() != argument.size())
    return Status(Code::invalid_argument, fmt::format("-x {}: a pattern has no value", argument),
                  "write -x 'PREFIX*' to pass on what is set here, or -x NAME=value");
  base.named.insert(name);
  if (name.size() != argument.size()) {
    collected[name] = argument;
    base.chosen.insert(name);
    return {};
  }
  const bool prefix = name.ends_with('*');
  const std::string_view wanted = std::string_view(name).substr(0, name.size() - (prefix ? 1 : 0));
  bool found = false;
  for (const std::string& entry : inherited) {
    if (!(prefix ? entry.starts_with(wanted) : name_in(entry) == wanted)) continue;
    collected[std::string(name_in(entry))] = entry;
    base.named.emplace(name_in(entry));
    found = true;
  }
  if (!found)
    base.warnings.push_back(fmt::format("-x {}: no such variable is set here, nothing to export", argument));
  return {};
}

}  // namespace

std::vector<RankVariable> rank_variables() {
  std::vector<RankVariable> variables(kRows.size());
  std::transform(kRows.begin(), kRows.end(), variables.begin(), [](const Row& row) { return row.variable; });
  return variables;
}

Result<BaseEnvironment> base_environment(std::span<const std::string> inherited,
                                         std::span<const std::string> exports, bool only_exports) {
  BaseEnvironment base;
  Collected collected;
  if (!only_exports)
    for (const std::string& entry : inherited)
      if (!is_place_elsewhere(name_in(entry))) collected[std::string(name_in(entry))] = entry;
  for (const std::string& argument : exports) RONDEL_TRY(export_one(argument, inherited, collected, base));
  for (auto& [name, entry] : collected) base.variables.push_back(std::move(entry));
  return base;
}

bool is_host_variable(std::string_view name) {
  constexpr std::array<std::string_view, 28> kNames{
      // the account and its shell, which may differ from host to host
      "HOME", "USER", "LOGNAME", "SHELL", "SHLVL", "MAIL", "_",
      // the machine
      "HOSTNAME", "HOST", "HOSTTYPE", "MACHTYPE", "OSTYPE",
      // folders of its own disk
      "TMPDIR", "TMP", "TEMP",
      // sockets, tickets and terminals of one login
      "DISPLAY", "WAYLAND_DISPLAY", "XAUTHORITY", "DBUS_SESSION_BUS_ADDRESS", "KRB5CCNAME", "GPG_TTY",
      "GPG_AGENT_INFO", "WINDOWID", "TMUX", "STY", "INVOCATION_ID", "JOURNAL_STREAM", "NOTIFY_SOCKET"};
  return name.starts_with("SSH_") || name.starts_with("XDG_") ||
         std::find(kNames.begin(), kNames.end(), name) != kNames.end();
}

BaseEnvironment for_other_host(const BaseEnvironment& base) {
  BaseEnvironment other = base;
  other.warnings.clear();
  std::erase_if(other.variables, [&base](const std::string& entry) {
    const std::string_view name = name_in(entry);
    return is_host_variable(name) && !base.named.contains(name);
  });
  return other;
}

void add_host_variables(BaseEnvironment& base, std::span<const std::string> own) {
  std::set<std::string, std::less<>> there;
  for (const std::string& entry : base.variables) there.emplace(name_in(entry));
  for (const std::string& entry : own)
    if (is_host_variable(name_in(entry)) && !there.contains(name_in(entry))) base.variables.push_back(entry);
}

std::vector<std::string> rank_environment(const BaseEnvironment& base, const RankPlace& place,
                                          const JobContact& contact, int secret_fd) {
  const auto is_ours = [&base](const Row& row) {
    return !(row.user_may_choose && base.chosen.contains(row.variable.name));
  };
  std::vector<std::string> variables;
  for (const std::string& entry : base.variables) {
    const Row* row = find_row(name_in(entry));
    if (row == nullptr || !is_ours(*row)) variables.push_back(entry);
  }
  const RankFacts facts{place, contact, secret_fd};
  for (const Row& row : kRows)
    if (is_ours(row)) variables.push_back(fmt::format("{}={}", row.variable.name, row.value(facts)));
  return variables;
}

}  // namespace rondel
