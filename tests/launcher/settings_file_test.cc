// SPDX-License-Identifier: Apache-2.0
#include "launcher/settings_file.h"

#include <catch2/catch.hpp>

#include "launcher/options.h"
#include "tests/support/seed.h"

using Catch::Matchers::Contains;
using rondel::parse_settings;
using Words = std::vector<std::string>;

namespace {

std::vector<Words> words_of(const char* text) {
  const auto settings = parse_settings(text, "job.conf");
  REQUIRE(settings.ok());
  std::vector<Words> words;
  for (const rondel::Setting& setting : *settings) words.push_back(setting.words);
  return words;
}

rondel::Result<rondel::Options> options_of(const char* text, const Words& arguments) {
  const auto settings = parse_settings(text, "job.conf");
  REQUIRE(settings.ok());
  return rondel::parse_options(arguments, *settings);
}

std::string error_of(const char* text) {
  const auto options = options_of(text, {"-np", "2", "train"});
  REQUIRE_FALSE(options.ok());
  return options.status().text();
}

}  // namespace

TEST_CASE("lines become words of a command line") {
  CHECK(words_of("np = 4\n") == std::vector<Words>{{"--np", "4"}});
  CHECK(words_of("\xef\xbb\xbfnp 4\r\n\r\n  # note\n\tnp=4") ==
        std::vector<Words>{{"--np", "4"}, {"--np", "4"}});
  CHECK(words_of("--tag-output\n-l") == std::vector<Words>{{"--tag-output"}, {"-l"}});
  CHECK(words_of("x = A=b c  # d ") == std::vector<Words>{{"-x", "A=b c  # d"}});
  CHECK(words_of("x A=1\nx==") == std::vector<Words>{{"-x", "A=1"}, {"-x", "="}});
  CHECK(words_of("wdir =") == std::vector<Words>{{"--wdir", ""}});
  CHECK(words_of("").empty());
}

TEST_CASE("the command line comes after the file, and what can be repeated adds up") {
  const auto options = options_of("np = 4\nx = A=1\nmap-by = node\nhosts = a:8\nverbose\n",
                                  {"-np", "2", "-x", "B=2", "train", "np", "9"});
  REQUIRE(options.ok());
  CHECK(options->ranks == 2);
  CHECK(options->exports == Words{"A=1", "B=2"});
  CHECK(options->map_by == rondel::MapBy::node);
  CHECK(options->hosts.size() == 1);
  CHECK(options->verbose);
  CHECK(options->program == Words{"train", "np", "9"});
}

TEST_CASE("what is wrong in a file is said with file, line and text") {
  CHECK_THAT(error_of("\nnp = four"), Contains("job.conf:2: \"np = four\"") && Contains("found \"four\""));
  CHECK_THAT(error_of("hostfil = a"), Contains("job.conf:1") && Contains("did you mean --hostfile?"));
  CHECK_THAT(error_of("verbose = yes"), Contains("job.conf:1") && Contains("--verbose"));
  CHECK_THAT(error_of("np"), Contains("job.conf:1") && Contains("needs a value"));
  CHECK_THAT(error_of("wdir ="), Contains("job.conf:1") && Contains("empty value"));
  CHECK_THAT(error_of("config-file = other"), Contains("job.conf:1") && Contains("no further file"));
  CHECK_THAT(error_of("mca = a b"), Contains("job.conf:1"));
  CHECK_FALSE(parse_settings("= 4", "f").ok());
  CHECK_FALSE(parse_settings("--", "f").ok());
}

TEST_CASE("random files give an answer, never a crash") {
  rondel::test::Random random(rondel::test::test_seed());
  const std::string letters = "np=x-l 4#\n\t\r\xffv";
  for (int round = 0; round < 3'000; ++round) {
    std::string text(random.below(30), ' ');
    for (char& c : text) c = letters[random.below(letters.size())];
    const auto settings = parse_settings(text, "f");
    if (!settings.ok()) continue;
    const auto options = rondel::parse_options(Words{"-np", "1", "true"}, *settings);
    if (!options.ok()) REQUIRE_FALSE(options.status().text().empty());
  }
}
