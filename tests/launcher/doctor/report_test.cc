// SPDX-License-Identifier: Apache-2.0
// What is shown of findings: the page for people and the JSON for programs.
#include <algorithm>
#include <catch2/catch.hpp>
#include <nlohmann/json.hpp>
#include <sstream>
#include <string>

#include "launcher/doctor/facts_json.h"
#include "launcher/doctor/page.h"
#include "launcher/doctor/report_json.h"
#include "tests/launcher/doctor/sample.h"
#include "tests/support/seed.h"

using Catch::Matchers::Contains;
using nlohmann::ordered_json;
using rondel::doctor::diagnose;
using rondel::doctor::Findings;
using rondel::doctor::page;
using rondel::doctor::report_json;
using rondel::doctor::wrapped;
using rondel::test::close_way;
using rondel::test::healthy;

namespace {

std::string page_of(const Findings& findings, std::size_t width = 100) {
  return page(findings, diagnose(findings), width);
}

std::size_t lines_of(const std::string& text) {
  return static_cast<std::size_t>(std::count(text.begin(), text.end(), '\n'));
}

}  // namespace

TEST_CASE("a page of healthy hosts says so, and how to go on") {
  const std::string text = page_of(healthy(4));
  CHECK_THAT(text, Contains("4 hosts, 8 ranks, 2.5 s") &&
                       Contains("All is well.\nnext: rondelrun -H all ./train\n"));
  CHECK_THAT(text,
             Contains("eth0 10.0.0.3/24 mtu 1500 10 Gbit/s") && Contains("  10.00") && Contains("     50"));
  CHECK_THAT(text, !Contains("FAILS") && !Contains("lo 127") && Contains("equal"));
}

TEST_CASE("a closed way stands in both tables, and keeps the next command back") {
  Findings findings = healthy(3);
  close_way(findings, 0, 2);
  const std::string text = page_of(findings);
  CHECK_THAT(text,
             Contains("   1 h1        -     50  FAILS\n") && Contains("   1 h1        -  10.00  FAILS\n"));
  CHECK_THAT(text, Contains("ERROR   h1 can not connect to h3") && Contains("fix: ") &&
                       Contains("1 error, 0 warnings."));
  CHECK_THAT(text, !Contains("next:"));
}

TEST_CASE("a slow way has its number too") {
  Findings findings = healthy(2);
  findings.measured.front().result.bulk_ns *= 8000;  // 1.25 Mbit/s
  CHECK_THAT(page_of(findings), Contains(" 0.0013") && Contains("  10.00"));
}

TEST_CASE("many hosts still make one page, on which those with problems are") {
  Findings findings = healthy(64);
  findings.hosts[60].facts->shm_bytes = 1U << 20U;
  const std::string text = page_of(findings);
  CHECK(lines_of(text) < 60);
  CHECK_THAT(text, Contains("  61 h61") && Contains("and 48 more") && Contains("4032 of 4032 pairs connect"));
}

TEST_CASE("lines fit, and hold nothing that a terminal would act on, whatever a host says") {
  Findings findings = healthy(3);
  findings.hosts[1].facts->nics[1].name = "\x1b[2Jeth0\n\xff";
  findings.hosts[1].lost = std::string(300, 'x') + " \x1b]0;title\x07 " + std::string(50, 'y') + " z";
  findings.hosts[2].label = std::string(80, 'n');
  for (const std::size_t width : std::initializer_list<std::size_t>{0, 40, 61, 100, 1000}) {
    const std::string text = page_of(findings, width);
    for (const char c : text) CHECK((c == '\n' || (c >= ' ' && c <= '~')));
  }
  std::istringstream lines(page_of(healthy(10)));
  for (std::string line; std::getline(lines, line);) CHECK(line.size() <= 100);
}

TEST_CASE("wrapping loses no word") {
  rondel::test::Random random(rondel::test::test_seed());
  const auto words_of = [](const std::string& text) {
    std::istringstream in(text);
    std::string all;
    for (std::string word; in >> word;) all += word + " ";
    return all;
  };
  for (int round = 0; round < 2'000; ++round) {
    std::string text;
    for (std::size_t i = random.below(40); i > 0; --i)
      text += std::string(random.below(15), 'w') + std::string(1 + random.below(3), ' ');
    const std::size_t width = 30 + random.below(60);
    const std::string out = wrapped(text, width, random.below(10));
    REQUIRE(words_of(out) == words_of(text));
    std::istringstream lines(out);
    for (std::string line; std::getline(lines, line);) REQUIRE(line.size() <= width);
  }
}

TEST_CASE("the JSON holds every host, every pair, every problem") {
  Findings findings = healthy(3);
  close_way(findings, 1, 2);
  findings.hosts[0].lost = "gone";
  findings.hosts[0].facts.reset();
  const auto json = ordered_json::parse(report_json(findings, diagnose(findings)));
  CHECK(json["ok"] == false);
  CHECK(json["version"] == "1.2.3");
  CHECK(json["ranks"] == 6);
  CHECK(json["hosts"].size() == 3);
  CHECK(json["hosts"][0]["lost"] == "gone");
  CHECK(json["hosts"][0]["facts"].is_null());
  CHECK(json["hosts"][1]["lost"].is_null());
  CHECK(json["hosts"][1]["facts"]["open_files"]["soft"] == 65'536);
  CHECK(json["hosts"][1]["to_launcher"][0]["reached"] == true);
  REQUIRE(json["pairs"].size() == 6);
  for (const auto& pair : json["pairs"]) {
    const bool closed = pair["from"] == "h2" && pair["to"] == "h3";
    CHECK(pair["reached"] == !closed);
    CHECK(pair["addresses"].size() == 1);
    CHECK(pair["measured"].is_null() == closed);
    if (!closed) CHECK(pair["measured"]["bits_per_second"] == 1e10);
  }
  CHECK(json["problems"].size() == diagnose(findings).size());
  for (const auto& problem : json["problems"]) {
    CHECK(problem["problem"].is_string());
    CHECK_FALSE(problem["fix"].get<std::string>().empty());
  }
}

TEST_CASE("facts come through as they were, and nothing else is taken for facts") {
  Findings findings = healthy(1);
  auto& facts = *findings.hosts[0].facts;
  facts.rdma = {{.device = "mlx5_0",
                 .port = 1,
                 .state = "ACTIVE",
                 .link_layer = "InfiniBand",
                 .rate = "100",
                 .gids = 3,
                 .numa_node = 1}};
  facts.gpus = {{.pci = "0000:3b:00.0", .model = "A100", .numa_node = {}}};
  facts.numa = {{.node = 0, .cpus = "0-7"}};
  facts.cgroup_cores = 3;
  const std::string text = to_json(facts).dump();
  const auto read = rondel::doctor::facts_from(text);
  REQUIRE(read.ok());
  CHECK(to_json(*read).dump() == text);
  for (const char* bad : {"", "{}", "[]", "null", "{\"kernel\": 3}", "\xff"})
    CHECK_FALSE(rondel::doctor::facts_from(bad).ok());
  rondel::test::Random random(rondel::test::test_seed());
  for (int round = 0; round < 3'000; ++round) {
    std::string spoilt = text;
    for (std::size_t i = 1 + random.below(3); i > 0; --i)
      spoilt[random.below(spoilt.size())] = static_cast<char>(random.below(256));
    const auto taken = rondel::doctor::facts_from(spoilt);  // must not throw
    if (taken.ok()) CHECK(to_json(*taken).size() == to_json(facts).size());
  }
}
