// SPDX-License-Identifier: Apache-2.0
#include "launcher/job_plan.h"

#include <catch2/catch.hpp>
#include <nlohmann/json.hpp>

#include "launcher/host_list.h"

using Catch::Matchers::Contains;
using rondel::make_plan;
using rondel::Options;
using Words = std::vector<std::string>;

namespace {

Options options_for(rondel::Rank ranks) {
  Options options;
  options.ranks = ranks;
  options.program = {"train", "--flag", "a\"b\xff"};
  return options;
}

/// A job over these hosts, one rank a slot.
Options options_over(const char* hosts, rondel::Action action = rondel::Action::run) {
  Options options = options_for(0);
  options.hosts = *rondel::parse_host_list(hosts);
  options.action = action;
  return options;
}

rondel::JobPlan plan_of(const Options& options, const std::string& host = "node.example") {
  auto plan = make_plan(options, Words{}, host);
  INFO(plan.status().text());
  REQUIRE(plan.ok());
  return *std::move(plan);
}

rondel::Status error_of(const Options& options) {
  const auto plan = make_plan(options, Words{}, "node.example");
  REQUIRE_FALSE(plan.ok());
  return plan.status();
}

TEST_CASE("without hosts the number of ranks is wanted") {
  CHECK_THAT(error_of(Options{}).text(), Catch::Contains("-np N"));
}

}  // namespace

TEST_CASE("a plan holds every rank of this host") {
  const auto plan = make_plan(options_for(3), Words{"A=1"}, "node");
  REQUIRE(plan.ok());
  CHECK(plan->places.size() == 3);
  CHECK(plan->places[2].local_size == 3);
  CHECK_THAT(rondel::plan_text(*plan), Contains("train --flag") && Contains("2  node") && Contains("2 of 3"));
}

TEST_CASE("a plan shows the cores of this host's ranks, and what will be asked for on others") {
  Options options = options_over("node.example:2,other:1");
  CHECK_THAT(rondel::plan_text(plan_of(options)), !Contains("bound"));
  options.binding = {rondel::BindTo::core};
  auto plan = plan_of(options);
  plan.local_bindings = {{0, 4}, {1, 2, 3}};
  const std::string text = rondel::plan_text(plan);
  CHECK_THAT(text, Contains("0 of 2  bound to cpus 0,4\n") && Contains("1 of 2  bound to cpus 1-3\n"));
  CHECK_THAT(text, Contains("0 of 1  bound there, --bind-to core\n"));
  const auto json = nlohmann::json::parse(rondel::plan_json(plan));
  CHECK(json["bind_to"] == "core");
  CHECK(json["ranks"][1]["cpus"] == "1-3");
  CHECK(json["ranks"][2]["cpus"].is_null());
}

TEST_CASE("the plan as JSON can be read back") {
  Options options = options_for(2);
  options.exports = {"B=secret value"};
  options.stdin_rank.reset();
  const auto plan = make_plan(options, Words{}, "node");
  REQUIRE(plan.ok());
  const std::string text = rondel::plan_json(*plan);
  const auto json = nlohmann::json::parse(text);
  CHECK(json["size"] == 2);
  CHECK(json["stdin_rank"].is_null());
  CHECK(json["ranks"][1]["local_rank"] == 1);
  CHECK(json["program"][0] == "train");
  CHECK(json["exports"][0] == "B");
  CHECK_THAT(text, !Contains("secret value"));
}

TEST_CASE("variables that the ranks would refuse are one error before the start") {
  const auto plan = make_plan(options_for(2), Words{"RONDEL_TIMEOUT_S=soon"}, "node");
  REQUIRE_FALSE(plan.ok());
  CHECK_THAT(plan.status().text(), Contains("RONDEL_TIMEOUT_S") && Contains("soon"));
  Options options = options_for(2);
  options.exports = {"RONDEL_TIMEOUT_S=5", "RONDEL_START_TIMEOUT_S=7"};
  const auto mended = make_plan(options, Words{"RONDEL_TIMEOUT_S=soon"}, "node");
  REQUIRE(mended.ok());
  CHECK(mended->start_timeout == std::chrono::seconds(7));
}

TEST_CASE("this host is known by all its names, and is one host") {
  const auto plan = plan_of(options_over("localhost:1,127.0.0.1:2,node:1,[::1],node.example,127.0.1.1,NODE"));
  REQUIRE(plan.hosts.size() == 1);
  CHECK(plan.hosts[0] == rondel::Host{.name = "node.example", .slots = 8});
  REQUIRE(plan.size() == 8);
  CHECK(plan.places[7].local_rank == 7);
  CHECK(plan.places[7].local_size == 8);
  CHECK(plan_of(options_over("node.example:2"), "node").size() == 2);
  CHECK(plan_of(options_over("node:2"), "node").size() == 2);
}

TEST_CASE("what is not this host is another one") {
  for (const char* hosts :
       {"other:2", "node.other", "10.0.0.1", "[fe80::1%eth0]", "localhost2", "u@localhost"}) {
    const auto plan = plan_of(options_over(hosts));
    CHECK_FALSE(plan.local_host.has_value());
    CHECK_FALSE(plan.is_local(plan.places[0].host));
  }
  const auto both = plan_of(options_over("other:2,localhost:2"));
  CHECK(both.local_host == 1);
  CHECK_FALSE(both.is_local(both.places[1].host));
  CHECK(both.is_local(both.places[2].host));
  Options container = options_for(0);
  container.hosts = {{.name = "localhost", .ssh_port = 2222}};
  const auto plan = plan_of(container);
  CHECK_FALSE(plan.local_host.has_value());
  CHECK(rondel::label_of(plan.hosts[0]) == "localhost port 2222");
}

TEST_CASE("slots, numbers and mapping decide as they do for other hosts") {
  Options options = options_over("localhost:2");
  options.ranks = 4;
  CHECK_THAT(error_of(options).text(),
             Contains("4 ranks") && Contains("2 slots") && Contains("--oversubscribe"));
  options.oversubscribe = true;
  CHECK(plan_of(options).places[3].local_size == 4);
  Options many = options_over("localhost:65536,127.0.0.1");
  CHECK(error_of(many).code() == rondel::Code::invalid_argument);
  Options each = options_for(0);
  each.per_host = 3;
  CHECK(plan_of(each).size() == 3);
  each.ranks = 6;
  CHECK_THAT(error_of(each).text(), Contains("2 hosts") && Contains("there is 1"));
}

TEST_CASE("the standard input goes to a rank that there is") {
  Options options = options_over("localhost:2");
  options.stdin_rank = 2;
  CHECK_THAT(error_of(options).text(), Contains("--stdin") && Contains("0 to 1"));
  options.stdin_rank = 1;
  CHECK(plan_of(options).stdin_rank == 1);
}

TEST_CASE("a dry run shows the ranks of any hosts") {
  Options options = options_over("a:2,u@[fe80::1%eth0],localhost", rondel::Action::dry_run);
  options.hosts.push_back({.name = "a", .ssh_port = 2222});
  options.map_by = rondel::MapBy::node;
  const auto plan = plan_of(options);
  const std::string text = rondel::plan_text(plan);
  CHECK_THAT(text,
             Contains("1  u@[fe80::1%eth0]") && Contains("2  node.example ") && Contains("3  a port 2222"));
  CHECK_THAT(text, Contains("4  a                        1 of 2"));
  const auto json = nlohmann::json::parse(rondel::plan_json(plan));
  CHECK(json["size"] == 5);
  REQUIRE(json["hosts"].size() == 4);
  CHECK(json["hosts"][0]["name"] == "a");
  CHECK(json["hosts"][0]["slots"] == 2);
  CHECK(json["hosts"][0]["user"].is_null());
  CHECK(json["hosts"][1]["user"] == "u");
  CHECK(json["hosts"][3]["ssh_port"] == 2222);
  CHECK(json["ranks"][4]["host_index"] == 0);
  CHECK(json["ranks"][4]["local_rank"] == 1);
  CHECK(json["ranks"][4]["cross_size"] == 1);
  CHECK(json["ranks"][3]["cross_rank"] == 3);
}
