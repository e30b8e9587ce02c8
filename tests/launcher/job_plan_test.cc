// SPDX-License-Identifier: Apache-2.0
#include "launcher/job_plan.h"

#include <catch2/catch.hpp>
#include <nlohmann/json.hpp>

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

}  // namespace

TEST_CASE("a plan holds every rank of this host") {
  const auto plan = make_plan(options_for(3), Words{"A=1"}, "node");
  REQUIRE(plan.ok());
  CHECK(plan->places.size() == 3);
  CHECK(plan->places[2].local_size == 3);
  CHECK_THAT(rondel::plan_text(*plan), Contains("train --flag") && Contains("2  node") && Contains("2 of 3"));
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
