// SPDX-License-Identifier: Apache-2.0
#include "launcher/binding.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <iterator>
#include <map>
#include <utility>

namespace rondel {
namespace {

struct Name {
  std::string_view name;
  BindTo to;
};

constexpr std::array kNames{Name{"none", BindTo::none},      Name{"hwthread", BindTo::hwthread},
                            Name{"core", BindTo::core},      Name{"socket", BindTo::socket},
                            Name{"package", BindTo::socket},  // as newer mpiruns call it
                            Name{"numa", BindTo::numa}};

/// What a rank takes: a core, or one hardware thread of it.
struct Seat {
  const Core* core;
  CpuSet cpus;
};

/// Cores in the machine's order. Single threads come first of every core, then second: ranks share a core's
/// arithmetic only when there are more of them than cores.
std::vector<Seat> seats_of(const Machine& machine, BindTo to) {
  std::vector<Seat> seats;
  if (to != BindTo::hwthread) {
    for (const Core& core : machine.cores) seats.push_back({&core, core.cpus});
    return seats;
  }
  for (std::size_t thread = 0, found = 1; found > 0; ++thread) {
    found = 0;
    for (const Core& core : machine.cores) {
      if (core.cpus.size() <= thread) continue;
      seats.push_back({&core, {core.cpus[thread]}});
      ++found;
    }
  }
  return seats;
}

TakeBy order_for(const BindingRules& rules) {
  if (rules.by != TakeBy::target) return rules.by;
  if (rules.to == BindTo::socket) return TakeBy::socket;
  return rules.to == BindTo::numa ? TakeBy::numa : TakeBy::core;
}

/// Deals in rounds, one seat of each group in turn; groups without seats left are passed over.
void deal(std::vector<Seat>& seats, int Core::*group) {
  std::map<int, int> taken;
  std::vector<std::pair<int, Seat>> by_round;
  by_round.reserve(seats.size());
  for (Seat& seat : seats) by_round.emplace_back(taken[seat.core->*group]++, std::move(seat));
  std::stable_sort(by_round.begin(), by_round.end(),
                   [](const auto& one, const auto& other) { return one.first < other.first; });
  std::transform(by_round.begin(), by_round.end(), seats.begin(),
                 [](auto& entry) { return std::move(entry.second); });
}

CpuSet all_of(const Machine& machine, int Core::*group, int value) {
  CpuSet cpus;
  for (const Core& core : machine.cores)
    if (core.*group == value) cpus.insert(cpus.end(), core.cpus.begin(), core.cpus.end());
  std::sort(cpus.begin(), cpus.end());
  return cpus;
}

CpuSet set_for(const Machine& machine, const Seat& seat, BindTo to) {
  if (to == BindTo::socket) return all_of(machine, &Core::socket, seat.core->socket);
  if (to == BindTo::numa) return all_of(machine, &Core::numa, seat.core->numa);
  return seat.cpus;
}

Status too_many(const Machine& machine, const BindingRules& rules, Rank ranks, std::size_t seats) {
  const bool threads = rules.to == BindTo::hwthread;
  const std::string what =
      seats == 1 ? (threads ? "hardware thread" : "core") : (threads ? "hardware threads" : "cores");
  std::string hint = fmt::format(
      "--bind-to {}:overload-allowed lets ranks share them, --bind-to none binds nothing", name_of(rules.to));
  std::size_t all = 0;
  for (const Core& core : machine.cores) all += core.cpus.size();
  if (!threads && all >= static_cast<std::size_t>(ranks))
    hint += fmt::format(", --bind-to hwthread takes {} ranks here", all);
  return Status(Code::invalid_argument,
                fmt::format("--bind-to {}: {} ranks, but only {} {} that they may use", name_of(rules.to),
                            ranks, seats, what),
                std::move(hint));
}

}  // namespace

Machine restricted(Machine machine, const CpuSet& allowed) {
  for (Core& core : machine.cores)
    std::erase_if(core.cpus,
                  [&allowed](int cpu) { return !std::binary_search(allowed.begin(), allowed.end(), cpu); });
  std::erase_if(machine.cores, [](const Core& core) { return core.cpus.empty(); });
  return machine;
}

std::optional<BindingRules> parse_bind_to(std::string_view text) {
  constexpr std::string_view kOverload = ":overload-allowed";
  BindingRules rules;
  rules.overload = text.ends_with(kOverload);
  if (rules.overload) text.remove_suffix(kOverload.size());
  const auto found =
      std::find_if(kNames.begin(), kNames.end(), [text](const Name& each) { return each.name == text; });
  if (found == kNames.end()) return std::nullopt;
  rules.to = found->to;
  return rules;
}

std::optional<TakeBy> parse_take_by(std::string_view text) {
  if (text == "core") return TakeBy::core;
  if (text == "socket" || text == "package") return TakeBy::socket;
  return text == "numa" ? std::optional(TakeBy::numa) : std::nullopt;
}

std::string_view name_of(BindTo to) {
  return std::find_if(kNames.begin(), kNames.end(), [to](const Name& each) { return each.to == to; })->name;
}

Result<std::vector<CpuSet>> bind_ranks(const Machine& machine, const BindingRules& rules, Rank ranks) {
  std::vector<CpuSet> sets(static_cast<std::size_t>(ranks));
  if (rules.to == BindTo::none || ranks == 0) return sets;
  std::vector<Seat> seats = seats_of(machine, rules.to);
  const TakeBy order = order_for(rules);
  if (order == TakeBy::socket) deal(seats, &Core::socket);
  if (order == TakeBy::numa) deal(seats, &Core::numa);
  if (seats.empty() || (sets.size() > seats.size() && !rules.overload))
    return too_many(machine, rules, ranks, seats.size());
  for (std::size_t rank = 0; rank < sets.size(); ++rank)
    sets[rank] = set_for(machine, seats[rank % seats.size()], rules.to);
  return sets;
}

}  // namespace rondel
