// SPDX-License-Identifier: Apache-2.0
#include "launcher/doctor/diagnosis.h"

#include <algorithm>
#include <catch2/catch.hpp>
#include <functional>
#include <string>
#include <vector>

#include "tests/launcher/doctor/sample.h"
#include "tests/support/seed.h"

using Catch::Matchers::Contains;
using rondel::doctor::diagnose;
using rondel::doctor::Findings;
using rondel::doctor::HostFacts;
using rondel::doctor::HostFindings;
using rondel::doctor::Problem;
using rondel::doctor::Severity;
using rondel::test::close_way;
using rondel::test::healthy;

namespace {

std::size_t errors_in(const std::vector<Problem>& problems) {
  return static_cast<std::size_t>(std::count_if(
      problems.begin(), problems.end(), [](const Problem& one) { return one.severity == Severity::error; }));
}

/// The one problem of three healthy hosts after `spoil` had the second.
Problem only_problem(const std::function<void(HostFindings&)>& spoil, Findings findings = healthy(3)) {
  spoil(findings.hosts[1]);
  const auto problems = diagnose(findings);
  REQUIRE(problems.size() == 1);
  CHECK_FALSE(problems.front().fix.empty());
  return problems.front();
}

Problem only_fact_problem(const std::function<void(HostFacts&)>& spoil) {
  Problem problem = only_problem([&spoil](HostFindings& host) { spoil(*host.facts); });
  CHECK(problem.hosts == std::vector<std::string>{"h2"});
  return problem;
}

rondel::doctor::RdmaFacts rdma_port(const std::string& state) {
  return {.device = "mlx5_0",
          .port = 1,
          .state = state,
          .link_layer = "Ethernet",
          .rate = "100 Gb/sec",
          .gids = 2,
          .numa_node = 0};
}

}  // namespace

TEST_CASE("healthy hosts have no problem, be they one or many") {
  for (const std::size_t hosts : std::initializer_list<std::size_t>{1, 2, 3, 20})
    CHECK(diagnose(healthy(hosts)).empty());
}

TEST_CASE("a host that is lost is an error that names it, why, and how to look for oneself") {
  const Problem problem = only_problem([](HostFindings& host) {
    host.lost = "nothing answers ssh on that port";
    host.facts.reset();
    host.clock.reset();
  });
  CHECK(problem.severity == Severity::error);
  CHECK_THAT(problem.words, Contains("h2: nothing answers ssh on that port"));
  CHECK_THAT(problem.fix, Contains("ssh h2 rondelrun --version"));
}

TEST_CASE("a host of which nothing is known is no healthy host") {
  const Problem problem = only_problem([](HostFindings& host) { host.facts.reset(); });
  CHECK(problem.severity == Severity::error);
  CHECK_THAT(problem.words, Contains("h2: it was not examined"));
}

TEST_CASE("limits on open files: too low to start is an error, too low for many connections a warning") {
  auto problem = only_fact_problem([](HostFacts& facts) { facts.open_files = {.soft = 35, .hard = 35}; });
  CHECK(problem.severity == Severity::error);
  CHECK_THAT(problem.words, Contains("35 open files") && Contains("starting 2 ranks takes 36"));
  problem = only_fact_problem([](HostFacts& facts) { facts.open_files = {.soft = 63, .hard = 4096}; });
  CHECK(problem.severity == Severity::error);
  problem = only_fact_problem([](HostFacts& facts) { facts.open_files = {.soft = 70, .hard = 4096}; });
  CHECK(problem.severity == Severity::warning);
  CHECK_THAT(problem.fix, Contains("nofile") && Contains("LimitNOFILE"));
  Findings unlimited = healthy(3);
  unlimited.hosts[1].facts->open_files = {};
  CHECK(diagnose(unlimited).empty());
}

TEST_CASE("locked memory matters where there is an RDMA port that works") {
  const auto with_port = [](HostFacts& facts, const std::string& state) {
    facts.rdma = {rdma_port(state)};
    facts.locked_bytes = {.soft = 64U << 10U, .hard = 64U << 10U};
  };
  const auto problem = only_fact_problem([&](HostFacts& facts) { with_port(facts, "ACTIVE"); });
  CHECK(problem.severity == Severity::error);
  CHECK_THAT(problem.words, Contains("mlx5_0") && Contains("64 KiB"));
  CHECK_THAT(problem.fix, Contains("memlock unlimited") && Contains("LimitMEMLOCK=infinity"));
  CHECK(only_fact_problem([&](HostFacts& facts) { with_port(facts, "DOWN"); }).severity == Severity::warning);
  Findings findings = healthy(2);
  with_port(*findings.hosts[1].facts, "ACTIVE");
  findings.hosts[1].facts->may_lock = true;
  CHECK(diagnose(findings).empty());
  findings.hosts[1].facts->may_lock = false;
  findings.hosts[1].facts->locked_bytes = {};
  CHECK(diagnose(findings).empty());
}

TEST_CASE("what else a host may have wrong") {
  auto problem = only_fact_problem([](HostFacts& facts) { facts.shm_bytes = 64U << 20U; });
  CHECK(problem.severity == Severity::warning);
  CHECK_THAT(problem.words, Contains("/dev/shm holds 64 MiB"));
  problem = only_fact_problem([](HostFacts& facts) { facts.own_name.addresses = {"127.0.1.1"}; });
  CHECK(problem.severity == Severity::warning);
  CHECK_THAT(problem.fix, Contains("10.0.0.2") && Contains("127.0.1.1") && Contains("/etc/hosts"));
  problem = only_fact_problem([](HostFacts& facts) { facts.own_name.took_ms = 10'000; });
  CHECK_THAT(problem.words, Contains("took 10.0 s"));
  problem = only_fact_problem([](HostFacts& facts) { facts.usable_cores = *(facts.cgroup_cores = 1); });
  CHECK_THAT(problem.words, Contains("2 ranks share 1 cores") && Contains("control group"));
  problem = only_fact_problem([](HostFacts& facts) {
    facts.nic_failure = "no interface of this host fits RONDEL_NET='ib0'";
    for (auto& nic : facts.nics) nic.chosen = false;
  });
  CHECK(problem.severity == Severity::error);
  problem = only_fact_problem([](HostFacts& facts) { facts.ports.free_in_range = 1; });
  CHECK(problem.severity == Severity::error);
  problem = only_problem([](HostFindings& host) { host.clock->ahead_ns = -90'000'000'000; });
  CHECK(problem.severity == Severity::warning);
  CHECK_THAT(problem.words, Contains("90.0 s behind this host's"));
}

TEST_CASE("a transport that was asked for must lead from host to host") {
  Findings findings = healthy(3);
  for (std::size_t i = 0; i < 3; ++i)
    findings.hosts[i].facts->transports[1] = {"other", true, true, "", i == 2 ? "b" : "a", "twins"};
  CHECK(diagnose(findings).empty());
  findings.transport = "other";
  const auto problems = diagnose(findings);
  REQUIRE(errors_in(problems) == 1);
  CHECK_THAT(problems.front().words,
             Contains("other that was asked for joins twins only, which h1 and h3 are not"));
}

TEST_CASE("a transport that was asked for must be usable; one that only some have is said once") {
  Findings findings = healthy(3);
  findings.hosts[2].facts->transports[1] = {"other", true, true, "", "", ""};
  auto problems = diagnose(findings);
  REQUIRE(problems.size() == 1);
  CHECK(problems.front().severity == Severity::warning);
  CHECK_THAT(problems.front().words, Contains("other is usable on h3 but not on h1, h2"));
  findings.transport = "other";
  problems = diagnose(findings);
  REQUIRE(errors_in(problems) == 1);
  CHECK_THAT(problems.front().words, Contains("h1, h2: ") && Contains("not in this version"));
  findings.transport = "bogus";
  problems = diagnose(findings);
  REQUIRE(errors_in(problems) == 1);
  CHECK_THAT(problems.front().words, Contains("no transport bogus"));
  CHECK_THAT(problems.front().fix, Contains("other"));
}

TEST_CASE("ranks that can not be bound as asked are an error of that host") {
  Findings findings = healthy(2);
  findings.hosts[1].facts->binding_failure = "4 ranks, but only 2 cores";
  const auto problems = diagnose(findings);
  REQUIRE(errors_in(problems) == 1);
  CHECK(problems.front().hosts == std::vector<std::string>{"h2"});
  CHECK_THAT(problems.front().words, Contains("only 2 cores"));
}

TEST_CASE("few ports are an error only where ranks listen") {
  Findings findings = healthy(1);
  findings.ports = "41000-41000";
  findings.hosts[0].facts->ports.free_in_range = 1;
  CHECK(errors_in(diagnose(findings)) == 0);
  CHECK(diagnose(findings).size() == 1);
  findings.transport = "tcp";
  CHECK(errors_in(diagnose(findings)) == 1);
}

TEST_CASE("hosts that share an address are told to leave it, not to open a firewall") {
  Findings findings = healthy(3);
  for (HostFindings& host : findings.hosts) {
    host.facts->nics.push_back({.name = "docker0", .address = "172.17.0.1", .prefix_bits = 16, .mtu = 1500});
    for (auto& attempt : host.attempts) {
      attempt.address = "172.17.0.1:4000";
      attempt.reached = false;
      attempt.why_not = "nobody listens on 172.17.0.1:4000 (connection refused)";
    }
  }
  findings.measured.clear();
  const auto problems = diagnose(findings);
  REQUIRE(errors_in(problems) > 0);
  for (const Problem& one : problems)
    CHECK_THAT(one.fix,
               Contains("172.17.0.1 is an address of h") && Contains("with --net") && !Contains("firewall"));
}

TEST_CASE("a way that no rank takes is a warning: of two ranks the smaller connects to the larger") {
  Findings findings = healthy(3);
  close_way(findings, 2, 0);
  auto problems = diagnose(findings);
  REQUIRE(problems.size() == 1);
  CHECK(problems.front().severity == Severity::warning);
  CHECK_THAT(problems.front().words,
             Contains("(but h1 to h3), which no rank needs while hosts and ranks are in"));
  close_way(findings, 1, 0);
  problems = diagnose(findings);
  REQUIRE(problems.size() == 1);
  CHECK(problems.front().severity == Severity::warning);
  CHECK_THAT(problems.front().words, Contains("no host can connect to h1, which no rank needs"));
  findings.hosts[0].last_rank = 5;  // as with --map-by node
  CHECK(diagnose(findings).front().severity == Severity::error);
  findings = healthy(3);
  close_way(findings, 2, 0);
  close_way(findings, 0, 2);
  problems = diagnose(findings);
  CHECK(errors_in(problems) == 2);
}

TEST_CASE("a closed way is named with its direction; a host that nobody reaches, once") {
  Findings findings = healthy(4);
  close_way(findings, 0, 2);
  auto problems = diagnose(findings);
  REQUIRE(problems.size() == 1);
  CHECK(problems.front().severity == Severity::error);
  CHECK(problems.front().hosts == std::vector<std::string>{"h1", "h3"});
  CHECK_THAT(problems.front().words,
             Contains("h1 can not connect to h3 (but h3 to h1); ") && Contains("no answer"));
  CHECK_THAT(problems.front().fix, Contains("firewall of h3") && Contains("RONDEL_PORTS"));
  findings = healthy(4);
  close_way(findings, 2, 0);
  for (const std::size_t from : std::initializer_list<std::size_t>{1, 3}) close_way(findings, from, 0);
  problems = diagnose(findings);
  REQUIRE(problems.size() == 1);
  CHECK_THAT(problems.front().words, Contains("no host can connect to h1"));
  findings = healthy(4);
  for (const std::size_t to : std::initializer_list<std::size_t>{0, 1, 3})
    close_way(findings, 2, to, "connecting to x: No route to host");
  problems = diagnose(findings);
  REQUIRE(problems.size() == 1);
  CHECK_THAT(problems.front().words, Contains("h3 can connect to no other host"));
  CHECK_THAT(problems.front().fix, Contains("route"));
  findings = healthy(2);
  findings.hosts[1].attempts.front().reached = false;
  problems = diagnose(findings);
  REQUIRE(problems.size() == 1);
  CHECK_THAT(problems.front().words, Contains("h2 can not connect to this host, where ranks meet"));
}

TEST_CASE("names of one machine are said together") {
  Findings findings = healthy(9);
  for (const std::size_t host : std::initializer_list<std::size_t>{2, 5, 7})
    findings.hosts[host].machine = "boot/same";
  const auto problems = diagnose(findings);
  REQUIRE(problems.size() == 1);
  CHECK(problems.front().severity == Severity::warning);
  CHECK_THAT(problems.front().words, Contains("h3, h6, h8 are one machine"));
}

TEST_CASE("one address of two hosts that does not work is a warning, unless both have it") {
  Findings findings = healthy(3);
  for (std::size_t host = 0; host < 3; ++host) {
    auto& nics = findings.hosts[host].facts->nics;
    for (const std::string& address : {"10.1.0." + std::to_string(host + 1), std::string("172.17.0.1")})
      nics.push_back({.name = "eth1",
                      .address = address,
                      .prefix_bits = 24,
                      .mtu = 1500,
                      .speed_mbit_s = {},
                      .numa_node = {},
                      .chosen = true});
  }
  const auto fail = [&findings](const char* address) {
    findings.hosts[0].attempts.push_back(
        {.host = 1, .store = false, .address = address, .reached = false, .why_not = "no answer"});
  };
  fail("172.17.0.1:4000");
  fail("192.168.1.1:4000");
  CHECK(diagnose(findings).empty());
  fail("10.1.0.2:4000");
  const auto problems = diagnose(findings);
  REQUIRE(problems.size() == 1);
  CHECK(problems.front().severity == Severity::warning);
  CHECK_THAT(problems.front().words,
             Contains("in 10.1.0.0/24 a connection fails from h1 to 10.1.0.2:4000 (eth1 of h2)"));
}

TEST_CASE("hosts with the same problem have it together") {
  Findings findings = healthy(64);
  for (HostFindings& host : findings.hosts) host.facts->shm_bytes = 64U << 20U;
  const auto problems = diagnose(findings);
  REQUIRE(problems.size() == 1);
  CHECK(problems.front().hosts.size() == 64);
  CHECK_THAT(problems.front().words, Contains("h1, h2, h3, h4, h5, h6 and 58 more: /dev/shm"));
}

TEST_CASE("ways that are slow, or too narrow for large packets") {
  Findings findings = healthy(3);
  findings.measured[1].result.bytes /= 10;
  auto problems = diagnose(findings);
  REQUIRE(problems.size() == 1);
  CHECK(problems.front().severity == Severity::warning);
  CHECK_THAT(problems.front().words, Contains("from h1 to h3 it is 1.00 Gbit/s"));
  findings = healthy(3);
  findings.measured[1].result.bytes = 0;
  findings.measured[1].result.why_not = "nothing was received in time";
  problems = diagnose(findings);
  REQUIRE(problems.size() == 1);
  CHECK(problems.front().severity == Severity::error);
  CHECK_THAT(problems.front().words, Contains("small messages pass from h1 to h3, large ones do not"));
  CHECK_THAT(problems.front().fix, Contains("MTU"));
  findings = healthy(3);
  findings.hosts[2].facts->nics[1].mtu = 9000;
  problems = diagnose(findings);
  REQUIRE(problems.size() == 1);
  CHECK_THAT(problems.front().words,
             Contains("10.0.0.0/24 differ in MTU: 1500 on h1 and 1 more, 9000 on h3"));
}

TEST_CASE(
    "whatever is spoilt, errors come first, each problem has words and a fix, and a lost host hides "
    "nothing") {
  rondel::test::Random random(rondel::test::test_seed());
  for (int round = 0; round < 300; ++round) {
    const std::size_t hosts = 2 + random.below(10);
    Findings findings = healthy(hosts);
    std::size_t closed = 0;
    for (std::size_t from = 0; from < hosts; ++from)
      for (std::size_t to = 0; to < hosts; ++to)
        if (from != to && random.below(4) == 0) close_way(findings, from, to), ++closed;
    for (HostFindings& host : findings.hosts) {
      if (random.below(3) == 0)
        host.facts->open_files = {.soft = random.below(100), .hard = random.below(100)};
      if (random.below(3) == 0) host.facts->shm_bytes = random.below(2) << 28U;
      if (random.below(5) == 0) host.lost = "gone";
      if (random.below(5) == 0) host.facts.reset();
    }
    const auto problems = diagnose(findings);
    bool warned = false;
    for (const Problem& one : problems) {
      CHECK_FALSE(one.words.empty());
      CHECK_FALSE(one.fix.empty());
      warned = warned || one.severity == Severity::warning;
      CHECK((one.severity == Severity::warning) == warned);
    }
    for (const HostFindings& host : findings.hosts) {
      const bool named = std::any_of(problems.begin(), problems.end(), [&host](const Problem& one) {
        return one.severity == Severity::error &&
               std::find(one.hosts.begin(), one.hosts.end(), host.label) != one.hosts.end();
      });
      if (host.lost) CHECK(named);
    }
    const bool any_lost = std::any_of(findings.hosts.begin(), findings.hosts.end(),
                                      [](const HostFindings& host) { return host.lost.has_value(); });
    if (closed > 0 && !any_lost) CHECK(!problems.empty());
  }
}
