// SPDX-License-Identifier: Apache-2.0
#include "launcher/output_path.h"

#include <catch2/catch.hpp>
#include <string>

#include "tests/support/seed.h"

using Catch::Matchers::Contains;
using rondel::check_output_pattern;
using rondel::output_path;
using rondel::agent::Stream;

namespace {

const rondel::OutputNames kNames{.rank = 7, .size = 128, .host = "node1", .job = "job-a"};

}  // namespace

TEST_CASE("a folder has a folder for each rank") {
  CHECK(output_path("logs", kNames, Stream::standard_output) == "logs/rank.7/stdout");
  CHECK(output_path("logs", kNames, Stream::standard_error) == "logs/rank.7/stderr");
  CHECK(check_output_pattern("logs").ok());
}

TEST_CASE("a pattern is filled in, the same for both streams") {
  for (const auto stream : {Stream::standard_output, Stream::standard_error})
    CHECK(output_path("%h/%R-%r.%j.100%%", kNames, stream) == "node1/007-7.job-a.100%");
  CHECK(output_path("%R", {.rank = 0, .size = 1, .host = {}, .job = {}}, Stream::standard_output) == "0");
  CHECK(output_path("%R", {.rank = 9, .size = 10, .host = {}, .job = {}}, Stream::standard_output) == "9");
  CHECK(output_path("%R", {.rank = 9, .size = 11, .host = {}, .job = {}}, Stream::standard_output) == "09");
}

TEST_CASE("wrong patterns are refused with what may be written") {
  CHECK(check_output_pattern("a/%R.log").ok());
  CHECK(check_output_pattern("%%%r").ok());
  for (const char* wrong : {"%r%x", "%", "%r%", "%r %%%"})
    CHECK_THAT(check_output_pattern(wrong).text(), Contains("%h for the host"));
  CHECK_THAT(check_output_pattern("%h.log").text(), Contains("one file for all ranks"));
  CHECK_FALSE(check_output_pattern("100%%").ok());
}

TEST_CASE("what is checked can be filled in") {
  rondel::test::Random random(rondel::test::test_seed());
  for (int round = 0; round < 20'000; ++round) {
    std::string text(random.below(8), ' ');
    for (char& c : text) c = "%%rRhjx/"[random.below(8)];
    if (!check_output_pattern(text).ok() || !rondel::is_output_pattern(text)) continue;
    const std::string path = output_path(text, kNames, Stream::standard_output);
    REQUIRE(path.find('7') != std::string::npos);
  }
}
