// SPDX-License-Identifier: Apache-2.0
#include "bench/options.h"

#include <catch2/catch.hpp>
#include <sstream>
#include <vector>

namespace rondel::bench {
namespace {

std::variant<Options, NothingToRun> parse(const std::string& line) {
  std::vector<std::string> words{"rondel-bench"};
  std::istringstream stream(line);
  for (std::string word; stream >> word;) words.push_back(word);
  std::vector<const char*> arguments;
  for (const std::string& word : words) arguments.push_back(word.c_str());
  return parse_options(static_cast<int>(arguments.size()), arguments.data());
}

Options options_of(const std::string& line) {
  const auto parsed = parse(line);
  const auto* const options = std::get_if<Options>(&parsed);
  INFO(line << ": " << (options == nullptr ? std::get<NothingToRun>(parsed).text : ""));
  REQUIRE(options != nullptr);
  return *options;
}

TEST_CASE("nccl-tests' flags mean the same here") {
  const Options o = options_of("broadcast -b 8 -e 128M -f 2 -n 20 -w 5 -c 3 -d half -o avg -r 2 -J out.json");
  CHECK(o.collective->name == "broadcast");
  CHECK(o.sweep.begin_bytes == 8);
  CHECK(o.sweep.end_bytes == std::size_t{128} << 20);
  CHECK(o.sweep.factor == 2);
  CHECK(o.sweep.iterations == 20);
  CHECK(o.sweep.warmup == 5);
  CHECK(o.checks == 3);
  CHECK(o.type == DataType::float16);
  CHECK(o.op == ReduceOp::average);
  CHECK(o.root == 2);
  CHECK(o.json_file == "out.json");
  CHECK(options_of("allreduce -i 1K").sweep.step_bytes == 1024);
  CHECK(options_of("all_reduce").collective->name == "allreduce");
  CHECK(options_of("reducescatter").collective->name == "reduce_scatter");
}

TEST_CASE("a wrong command line is answered with what was wrong") {
  const std::vector<std::pair<std::string, std::string>> wrong{
      {"", "collective is required"},
      {"alreduce", "did you mean allreduce?"},
      {"allreduce -b 4Q", "\"4Q\""},
      {"allreduce -b 0", "less than 1"},
      {"allreduce -f 1", "at least 2"},
      {"allreduce -b 1M -e 4", "more than -e"},
      {"allreduce -n 0", "range 1"},
      {"allreduce -n x", "x"},
      {"allreduce -w -1", "range 0"},
      {"allreduce -i 4 -f 2", "excludes"},
      {"allreduce -d float8", "float8"},
      {"allreduce -o plus", "bit_xor"},
      {"allreduce -o bit_or", "float32"},
      {"allreduce -d bool -o avg", "bool"},
      {"allreduce --fast", "--fast"},
      {"allreduce -r 1", "allreduce has no root"},
      {"allreduce -f 1.5", "-f 1.5: not a whole number"},
      {"broadcast -r -1", "range 0 to 1048575"},
      {"allreduce --memory disk", "arena"},
      {"allreduce extra", "extra"},
  };
  for (const auto& [line, expected] : wrong) {
    INFO(line);
    const auto parsed = parse(line);
    const auto* const nothing = std::get_if<NothingToRun>(&parsed);
    REQUIRE(nothing != nullptr);
    CHECK(nothing->code == kExitUsage);
    CHECK_THAT(nothing->text, Catch::Contains(expected));
  }
}

TEST_CASE("type and operator only have to fit where the collective reduces") {
  CHECK(options_of("broadcast -d bool -o avg").type == DataType::boolean);
}

TEST_CASE("help is no error and names every collective") {
  const auto parsed = parse("--help");
  const auto& nothing = std::get<NothingToRun>(parsed);
  CHECK(nothing.code == 0);
  for (const Collective& collective : collectives())
    CHECK_THAT(nothing.text, Catch::Contains(std::string(collective.name)));
}

}  // namespace
}  // namespace rondel::bench
