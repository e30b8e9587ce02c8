// SPDX-License-Identifier: Apache-2.0
#include "launcher/normalise.h"

#include <algorithm>
#include <array>
#include <catch2/catch.hpp>
#include <string>
#include <vector>

#include "tests/support/seed.h"

using Catch::Matchers::Contains;
using rondel::normalise;
using rondel::OptionSpelling;
using Words = std::vector<std::string>;

namespace {

const std::vector<OptionSpelling> kSpellings{
    {"np", "np", 1},         {"num-proc", "num-proc", 1}, {"n", "np", 1},      {"x", "export", 1},
    {"export", "export", 1}, {"mca", "mca", 2},           {"v", "verbose", 0}, {"verbose", "verbose", 0}};

rondel::NormalisedArguments normal(const Words& words) {
  auto result = normalise(words, kSpellings);
  INFO(result.status().text());
  REQUIRE(result.ok());
  return *std::move(result);
}

std::string error_of(const Words& words) {
  const auto result = normalise(words, kSpellings);
  REQUIRE_FALSE(result.ok());
  CHECK(result.code() == rondel::Code::invalid_argument);
  return result.status().text();
}

}  // namespace

TEST_CASE("every way to write an option comes out the same") {
  for (const Words& words :
       {Words{"-np", "4", "a"}, Words{"--np", "4", "a"}, Words{"-n", "4", "a"}, Words{"-n4", "a"},
        Words{"--np=4", "a"}, Words{"-np=4", "a"}, Words{"-n=4", "a"}}) {
    const auto result = normal(words);
    CHECK(result.options == Words{"--np=4"});
    CHECK(result.program == Words{"a"});
  }
  CHECK(normal({"-v", "--verbose", "-verbose"}).options == Words{"--verbose", "--verbose", "--verbose"});
  CHECK(normal({"-mca", "btl", "tcp,self", "p"}).options == Words{"--mca=btl tcp,self"});
  CHECK(normal({"-x", "-odd=-", "p"}).options == Words{"--export=-odd=-"});
}

TEST_CASE("the program's own words are never touched") {
  const Words program{"python", "-np", "3", "--verbose", "--", "-x", "", "-n3"};
  Words words{"-np", "2", "-v"};
  words.insert(words.end(), program.begin(), program.end());
  CHECK(normal(words).program == program);
  CHECK(normal({"-v", "--", "-np", "2"}).program == Words{"-np", "2"});
  CHECK(normal({"-v", "--"}).program.empty());
  CHECK(normal({"-v"}).program.empty());
  CHECK(normal({"-", "-v"}).program == Words{"-", "-v"});
  CHECK(normal({"", "-v"}).program == Words{"", "-v"});
}

TEST_CASE("wrong words are named") {
  CHECK_THAT(error_of({"-genv", "A=1", "p"}),
             Contains("unknown option -genv; its place is taken by -x NAME=VALUE"));
  CHECK_THAT(error_of({"--verbos", "p"}), Contains("--verbos") && Contains("did you mean --verbose?"));
  CHECK_THAT(error_of({"-nq4", "p"}), Contains("unknown option -nq4"));
  CHECK_THAT(error_of({"--zzzzzzzzzzzz"}), Contains("--help"));
  CHECK_THAT(error_of({"-np"}), Contains("-np needs a value"));
  CHECK_THAT(error_of({"--mca", "a"}), Contains("--mca needs two values"));
  CHECK_THAT(error_of({"--np="}), Contains("empty value") && Contains("--np="));
  CHECK_THAT(error_of({"--verbose=1"}), Contains("takes no value"));
  CHECK_THAT(error_of({"-v4"}), Contains("unknown option -v4"));
}

TEST_CASE("random command lines: normal form is a fixed point and the program survives") {
  rondel::test::Random random(rondel::test::test_seed());
  const std::array<std::string, 12> pieces{"a",         "-np", "--np", "4",  "-n", "-v",
                                           "--verbose", "x=y", "--",   "-x", "V=", "-n7"};
  const auto any = [&random](std::size_t limit) { return random.below(limit); };
  for (int round = 0; round < 20'000; ++round) {
    Words options, program{"program"};
    for (std::size_t i = any(4); i > 0; --i) {
      const OptionSpelling& spelling = kSpellings[any(kSpellings.size())];
      options.push_back((spelling.name.size() == 1 || any(2) == 0 ? "-" : "--") + spelling.name);
      for (int value = 0; value < spelling.values; ++value) options.push_back(pieces[any(pieces.size())]);
    }
    for (std::size_t i = any(6); i > 0; --i) program.push_back(pieces[any(pieces.size())]);
    Words words = options;
    words.insert(words.end(), program.begin(), program.end());
    const auto once = normal(words);
    REQUIRE(once.program == program);
    Words again = once.options;
    again.insert(again.end(), once.program.begin(), once.program.end());
    // The two words of --mca have become one value; that form is for CLI11 only.
    if (std::any_of(again.begin(), again.end(),
                    [](const std::string& word) { return word.starts_with("--mca"); }))
      continue;
    const auto twice = normal(again);
    REQUIRE(twice.options == once.options);
    REQUIRE(twice.program == once.program);
  }
}

TEST_CASE("random rubbish gives an answer, never a crash") {
  rondel::test::Random random(rondel::test::test_seed());
  const std::string letters = "-=npvx4 \xff";
  for (int round = 0; round < 20'000; ++round) {
    Words words(random.below(5));
    for (std::string& word : words)
      for (std::size_t length = random.below(6); length > 0; --length)
        word += letters[random.below(letters.size())];
    const auto result = normalise(words, kSpellings);
    if (!result.ok()) REQUIRE_FALSE(result.status().text().empty());
    if (result.ok()) REQUIRE(result->options.size() + result->program.size() <= words.size());
  }
}
