// SPDX-License-Identifier: Apache-2.0
// Which processors each rank of a host gets.
#include "launcher/binding.h"

#include <algorithm>
#include <catch2/catch.hpp>
#include <map>
#include <numeric>
#include <set>

#include "tests/support/seed.h"

namespace rondel {
namespace {

using Sets = std::vector<CpuSet>;
using test::Random;

/// `sockets` of `nodes` of `cores` of `threads`; the second thread of core 0 is processor 0 + number of
/// cores, as on many machines.
Machine machine_of(int sockets, int nodes, int cores, int threads) {
  Machine machine;
  const int all = sockets * nodes * cores;
  for (int core = 0; core < all; ++core) {
    CpuSet cpus;
    for (int thread = 0; thread < threads; ++thread) cpus.push_back(core + thread * all);
    machine.cores.push_back({cpus, core / (nodes * cores), core / cores});
  }
  return machine;
}

Sets bound(const Machine& machine, const BindingRules& rules, Rank ranks) {
  auto sets = bind_ranks(machine, rules, ranks);
  INFO(sets.status().text());
  REQUIRE(sets.ok());
  return *std::move(sets);
}

bool disjoint(const Sets& sets) {
  std::set<int> seen;
  std::size_t count = 0;
  for (const CpuSet& set : sets) {
    seen.insert(set.begin(), set.end());
    count += set.size();
  }
  return seen.size() == count;
}

/// A machine as no vendor would sell it: uneven sockets, cores with one to four threads, cores left out.
Machine any_machine(Random& random) {
  Machine machine;
  int cpu = 0, node = 0;
  const int sockets = 1 + static_cast<int>(random.below(4));
  for (int socket = 0; socket < sockets; ++socket)
    for (std::size_t nodes = 1 + random.below(3); nodes > 0; --nodes, ++node)
      for (std::size_t cores = random.below(6); cores > 0; --cores) {
        CpuSet cpus(1 + random.below(4));
        std::iota(cpus.begin(), cpus.end(), cpu);
        cpu += static_cast<int>(cpus.size());
        machine.cores.push_back({cpus, socket, node});
      }
  CpuSet allowed;
  for (int one = 0; one < cpu; ++one)
    if (random.below(4) != 0) allowed.push_back(one);
  return restricted(std::move(machine), allowed);
}

std::size_t seats_in(const Machine& machine, BindTo to) {
  if (to != BindTo::hwthread) return machine.cores.size();
  return std::accumulate(machine.cores.begin(), machine.cores.end(), std::size_t{0},
                         [](std::size_t sum, const Core& core) { return sum + core.cpus.size(); });
}

/// How many ranks and how many seats each group has.
struct Load {
  std::size_t ranks = 0, seats = 0;
};

TEST_CASE("each rank has a core of its own, with all its threads, in the machine's order") {
  const Machine machine = machine_of(2, 1, 2, 2);
  CHECK(bound(machine, {BindTo::core}, 4) == Sets{{0, 4}, {1, 5}, {2, 6}, {3, 7}});
  CHECK(bound(machine, {BindTo::core, TakeBy::socket}, 3) == Sets{{0, 4}, {2, 6}, {1, 5}});
  CHECK(bound(machine, {BindTo::none}, 2) == Sets{{}, {}});
  CHECK(bound({}, {BindTo::none}, 2) == Sets{{}, {}});
}

TEST_CASE("hardware threads are taken of every core before a core gives its second") {
  const Machine machine = machine_of(1, 1, 2, 2);
  CHECK(bound(machine, {BindTo::hwthread}, 4) == Sets{{0}, {1}, {2}, {3}});
  CHECK(bound(machine_of(2, 1, 2, 2), {BindTo::hwthread, TakeBy::socket}, 5) ==
        Sets{{0}, {2}, {1}, {3}, {4}});
}

TEST_CASE("sockets and NUMA nodes take ranks in turn") {
  const Machine machine = machine_of(2, 2, 2, 1);
  CHECK(bound(machine, {BindTo::socket}, 3) == Sets{{0, 1, 2, 3}, {4, 5, 6, 7}, {0, 1, 2, 3}});
  CHECK(bound(machine, {BindTo::numa}, 3) == Sets{{0, 1}, {2, 3}, {4, 5}});
  CHECK(bound(machine, {BindTo::socket, TakeBy::core}, 5) ==
        Sets{{0, 1, 2, 3}, {0, 1, 2, 3}, {0, 1, 2, 3}, {0, 1, 2, 3}, {4, 5, 6, 7}});
}

TEST_CASE("more ranks than cores are refused with what would help, or begin again where that is allowed") {
  const Machine machine = machine_of(1, 1, 2, 2);
  const auto refused = bind_ranks(machine, {BindTo::core}, 3);
  REQUIRE_FALSE(refused.ok());
  CHECK(refused.code() == Code::invalid_argument);
  for (const char* word :
       {"3 ranks", "2 cores", "core:overload-allowed", "--bind-to none", "hwthread takes 4"})
    CHECK_THAT(refused.status().text(), Catch::Contains(word));
  const auto threads = bind_ranks(machine, {BindTo::hwthread}, 5);
  REQUIRE_FALSE(threads.ok());
  CHECK_THAT(threads.status().text(), Catch::Contains("4 hardware threads") && !Catch::Contains("takes"));
  CHECK_FALSE(bind_ranks(machine, {BindTo::socket}, 3).ok());
  CHECK(bound(machine, {BindTo::core, TakeBy::target, true}, 3) == Sets{{0, 2}, {1, 3}, {0, 2}});
  CHECK_FALSE(bind_ranks({}, {BindTo::core, TakeBy::target, true}, 1).ok());
}

TEST_CASE("processors that are not allowed are nobody's, and cores without any are passed over") {
  const Machine machine = restricted(machine_of(2, 1, 2, 2), {1, 3, 4, 6, 7, 99});
  CHECK(bound(machine, {BindTo::core}, 4) == Sets{{4}, {1}, {6}, {3, 7}});
  CHECK(bound(restricted(machine, {3, 6}), {BindTo::core}, 2) == Sets{{6}, {3}});
  CHECK(bound(restricted(machine, {3, 6}), {BindTo::socket}, 2) == Sets{{3, 6}, {3, 6}});
}

TEST_CASE("on any machine: within what is allowed, disjoint, and balanced") {
  Random random(test::test_seed());
  for (int round = 0; round < 3'000; ++round) {
    const Machine machine = any_machine(random);
    const auto to = static_cast<BindTo>(1 + random.below(kBindings - 1));
    const auto by = static_cast<TakeBy>(random.below(kOrders));
    const std::size_t seats = seats_in(machine, to);
    if (seats == 0) continue;
    const auto ranks = static_cast<Rank>(1 + random.below(seats));
    const Sets sets = bound(machine, {to, by}, ranks);
    REQUIRE(sets.size() == static_cast<std::size_t>(ranks));
    const bool own = to == BindTo::core || to == BindTo::hwthread;
    if (own) REQUIRE(disjoint(sets));
    const bool by_socket = by == TakeBy::socket || (by == TakeBy::target && to == BindTo::socket);
    const bool by_numa = by == TakeBy::numa || (by == TakeBy::target && to == BindTo::numa);
    std::map<int, Load> loads;
    const auto group = [&](const Core& core) { return by_socket ? core.socket : core.numa; };
    for (const Core& core : machine.cores)
      loads[group(core)].seats += to == BindTo::hwthread ? core.cpus.size() : 1;
    for (const CpuSet& set : sets) {
      REQUIRE_FALSE(set.empty());
      REQUIRE(std::is_sorted(set.begin(), set.end()));
      const auto home = std::find_if(machine.cores.begin(), machine.cores.end(), [&set](const Core& core) {
        return std::find(core.cpus.begin(), core.cpus.end(), set.front()) != core.cpus.end();
      });
      REQUIRE(home != machine.cores.end());
      ++loads[group(*home)].ranks;
    }
    if (!(by_socket || by_numa) || (!own && by_socket != (to == BindTo::socket))) continue;
    std::size_t most = 0;
    for (const auto& [number, load] : loads) most = std::max(most, load.ranks);
    for (const auto& [number, load] : loads)  // a group with fewer is one ahead of its next turn, or full
      REQUIRE((load.ranks + 1 >= most || load.ranks == load.seats));
  }
}

TEST_CASE("choices are read as mpirun writes them") {
  CHECK(parse_bind_to("core")->to == BindTo::core);
  CHECK(parse_bind_to("package")->to == BindTo::socket);
  CHECK(parse_bind_to("none")->to == BindTo::none);
  const auto overload = parse_bind_to("numa:overload-allowed");
  REQUIRE(overload);
  CHECK(overload->to == BindTo::numa);
  CHECK(overload->overload);
  for (const char* wrong : {"", "cores", "core:", "core:if-supported", ":overload-allowed", "l3cache"})
    CHECK_FALSE(parse_bind_to(wrong));
  CHECK(parse_take_by("package") == TakeBy::socket);
  CHECK(parse_take_by("slot") == std::nullopt);
  CHECK(name_of(BindTo::socket) == "socket");
}

}  // namespace
}  // namespace rondel
