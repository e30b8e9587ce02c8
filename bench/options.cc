// SPDX-License-Identifier: Apache-2.0
#include "bench/options.h"

#include <fmt/format.h>
#include <rondel.h>

#include <CLI/CLI.hpp>
#include <array>
#include <charconv>
#include <optional>
#include <sstream>
#include <vector>

namespace rondel::bench {
namespace {

constexpr int kIterationLimit = 1'000'000;
constexpr int kMostChecks = 1000;
constexpr int kHighestRank = (1 << 20) - 1;

/// What the user wrote, before it means anything.
struct Words {
  std::string collective, begin = "4", end = "64M", step, factor = "4", type = "float32", op = "sum",
                          memory = "arena";
  std::optional<Rank> root;
};

using Alias = std::pair<std::string_view, std::string_view>;
constexpr std::array kTypeAliases{Alias{"float", "float32"}, Alias{"half", "float16"},
                                  Alias{"double", "float64"}};
constexpr std::array kOpAliases{Alias{"avg", "average"}, Alias{"prod", "product"}};

template <class Aliases>
std::string_view without_alias(std::string_view name, const Aliases& aliases) {
  for (const auto& [alias, real] : aliases)
    if (alias == name) return real;
  return name;
}

Status wrong(std::string text) { return Status(Code::invalid_argument, std::move(text)); }

template <class Enum>
std::string all_names(std::size_t count) {
  std::string names;
  for (std::size_t i = 0; i < count; ++i)
    names.append(names.empty() ? "" : ", ").append(name_of(static_cast<Enum>(i)));
  return names;
}

template <class Aliases>
std::string also(const Aliases& aliases) {
  std::string names;
  for (const auto& [alias, real] : aliases) names.append(names.empty() ? "; also " : ", ").append(alias);
  return names;
}

Status read_type_and_op(const Words& words, Options& options) {
  const auto type = parse_data_type(without_alias(words.type, kTypeAliases));
  if (!type)
    return wrong(
        fmt::format("-d {}: no such type; there are {}", words.type, all_names<DataType>(kDataTypeCount)));
  const auto op = parse_reduce_op(without_alias(words.op, kOpAliases));
  if (!op)
    return wrong(
        fmt::format("-o {}: no such operator; there are {}", words.op, all_names<ReduceOp>(kReduceOpCount)));
  if (options.collective->reduces && !supports(*type, *op))
    return wrong(
        fmt::format("-d {} -o {}: this pair has no meaning; bitwise operators are for integers and bool, "
                    "and bool has no average",
                    name_of(*type), name_of(*op)));
  options.type = *type;
  options.op = *op;
  return {};
}

Status read_size(std::string_view flag, const std::string& word, std::size_t least, std::size_t& into) {
  Result<std::size_t> bytes = parse_bytes(word);
  if (!bytes.ok()) return std::move(bytes).status().with(flag);
  if (*bytes < least) return wrong(fmt::format("{}: {} is less than {}", flag, word, least));
  into = *bytes;
  return {};
}

Status read_sweep(const Words& words, Sweep& sweep) {
  RONDEL_TRY(read_size("-b", words.begin, 1, sweep.begin_bytes));
  RONDEL_TRY(read_size("-e", words.end, 1, sweep.end_bytes));
  const auto [end, error] =
      std::from_chars(words.factor.data(), words.factor.data() + words.factor.size(), sweep.factor);
  if (error != std::errc() || end != words.factor.data() + words.factor.size() || sweep.factor < 2)
    return wrong(fmt::format("-f {}: not a whole number of at least 2", words.factor));
  if (!words.step.empty()) RONDEL_TRY(read_size("-i", words.step, 1, sweep.step_bytes));
  if (sweep.end_bytes < sweep.begin_bytes)
    return wrong(fmt::format("-b {} is more than -e {}: nothing would run", words.begin, words.end));
  return {};
}

Status read(const Words& words, Options& options) {
  const auto found = find_collective(words.collective);
  RONDEL_TRY(found);
  options.collective = *found;
  RONDEL_TRY(read_sweep(words, options.sweep));
  RONDEL_TRY(read_type_and_op(words, options));
  if (words.root && !options.collective->has_root)
    return wrong(fmt::format("-r: {} has no root", options.collective->name));
  options.root = words.root.value_or(0);
  options.plain_memory = words.memory == "plain";
  return {};
}

void declare(CLI::App& app, Words& words, Options& options) {
  app.add_option("collective", words.collective, collective_names())->required();
  app.add_option("-b,--minbytes", words.begin, "first size, such as 8, 64K or 128M")->capture_default_str();
  app.add_option("-e,--maxbytes", words.end, "last size, if the steps meet it")->capture_default_str();
  auto* const step = app.add_option("-i,--stepbytes", words.step, "bytes between sizes");
  app.add_option("-f,--stepfactor", words.factor, "factor between sizes")
      ->excludes(step)
      ->capture_default_str();
  app.add_option("-n,--iters", options.sweep.iterations, "timed iterations; default: 10 to 2000 by size")
      ->check(CLI::Range(1, kIterationLimit));
  app.add_option("-w,--warmup_iters", options.sweep.warmup,
                 "warm-up iterations at each size; default: by size")
      ->check(CLI::Range(0, kIterationLimit));
  app.add_option("-c,--check", options.checks, "verified runs at each size, 0 for none")
      ->capture_default_str()
      ->check(CLI::Range(0, kMostChecks));
  app.add_option("-d,--datatype", words.type,
                 "element type: " + all_names<DataType>(kDataTypeCount) + also(kTypeAliases))
      ->capture_default_str();
  app.add_option("-o,--op", words.op, "operator: " + all_names<ReduceOp>(kReduceOpCount) + also(kOpAliases))
      ->capture_default_str();
  app.add_option("-r,--root", words.root, "root rank of broadcast, reduce, gather, scatter")
      ->capture_default_str()
      ->check(CLI::Range(0, kHighestRank));
  app.add_option("-J,--output_file", options.json_file,
                 "also write JSON to this file (FILE.1, ... when it exists)");
  app.add_option("--memory", words.memory, "buffers from rondel_alloc (arena) or malloc (plain)")
      ->capture_default_str()
      ->check(CLI::IsMember({"arena", "plain"}));
  app.add_flag("--counters", options.counters,
               "after each line, show what the transport counted on rank 0, such as requests and doorbells");
  app.set_version_flag("--version", std::string("rondel-bench ") + rondel_version_string());
  app.add_flag("--corrupt", options.corrupt)->group("");
}

}  // namespace

std::variant<Options, NothingToRun> parse_options(int argc, const char* const* argv) {
  CLI::App app(
      "Times Rondel's collectives among the ranks that started it:\n"
      "  rondelrun -np 2 rondel-bench allreduce -b 4 -e 64M -f 4\n"
      "An iteration's time is that of its slowest rank; the table shows the median over the iterations.\n"
      "Exit code: 0 all right, 1 failure, 2 wrong usage, 3 wrong results.",
      "rondel-bench");
  Words words;
  Options options;
  declare(app, words, options);
  try {
    app.parse(argc, argv);
  } catch (const CLI::ParseError& error) {
    std::ostringstream out, errors;
    const bool help = app.exit(error, out, errors) == 0;
    return NothingToRun{help ? 0 : kExitUsage, help ? out.str() : "rondel-bench: " + errors.str()};
  }
  const Status status = read(words, options);
  if (!status.ok()) return NothingToRun{kExitUsage, "rondel-bench: " + status.text() + "\n"};
  return options;
}

}  // namespace rondel::bench
