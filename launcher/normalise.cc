// SPDX-License-Identifier: Apache-2.0
#include "launcher/normalise.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <optional>
#include <string_view>

#include "lib/nearest_name.h"

namespace rondel {
namespace {

/// A word cut at its first '=', without its dashes.
struct OptionWord {
  std::string_view name;
  std::optional<std::string_view> value;
};

OptionWord cut(std::string_view word) {
  word.remove_prefix(word.starts_with("--") ? 2 : 1);
  const auto equals = word.find('=');
  if (equals == std::string_view::npos) return {word, std::nullopt};
  return {word.substr(0, equals), word.substr(equals + 1)};
}

const OptionSpelling* find_spelling(std::string_view name, std::span<const OptionSpelling> spellings) {
  const auto found = std::find_if(spellings.begin(), spellings.end(),
                                  [name](const OptionSpelling& spelling) { return spelling.name == name; });
  return found == spellings.end() ? nullptr : &*found;
}

/// "-n4": one letter that takes a value, with a number behind it.
const OptionSpelling* find_attached(std::string_view word, std::span<const OptionSpelling> spellings) {
  if (word.size() < 3 || word.starts_with("--")) return nullptr;
  const auto number = word.substr(2);
  if (number.find_first_not_of("0123456789") != std::string_view::npos) return nullptr;
  const OptionSpelling* spelling = find_spelling(word.substr(1, 1), spellings);
  return spelling != nullptr && spelling->values == 1 ? spelling : nullptr;
}

/// What people type at other launchers, and what it is called here.
struct Foreign {
  std::string_view name, here;
};
constexpr std::array kForeign{
    Foreign{"genv", "-x NAME=VALUE"},
    Foreign{"env", "-x NAME=VALUE"},
    Foreign{"envlist", "-x NAME, once for each"},
    Foreign{"genvlist", "-x NAME, once for each"},
    Foreign{"genvall", "nothing: all variables are passed on"},
    Foreign{"report-bindings", "-v, which tells where ranks are bound, or --dry-run"},
    Foreign{"display-map", "--dry-run"},
    Foreign{"prefix", "--remote-path"},
    Foreign{"launcher", "nothing: other hosts are reached by ssh"},
    Foreign{"bootstrap", "nothing: other hosts are reached by ssh"},
    Foreign{"gloo", "nothing: Rondel brings its own transports (--transport)"},
    Foreign{"mpi", "nothing: Rondel brings its own transports (--transport)"},
};

Status unknown_option(std::string_view word, std::span<const OptionSpelling> spellings) {
  std::vector<std::string_view> names;
  for (const OptionSpelling& spelling : spellings)
    if (!spelling.hidden) names.emplace_back(spelling.name);
  const std::string_view name = cut(word).name, nearest = nearest_name(name, names);
  if (const auto* foreign = std::ranges::find(kForeign, name, &Foreign::name); foreign != kForeign.end())
    return Status(Code::invalid_argument, fmt::format("unknown option {}", word),
                  fmt::format("its place is taken by {}", foreign->here));
  return Status(Code::invalid_argument, fmt::format("unknown option {}", word),
                nearest.empty()
                    ? "rondelrun --help lists the options; the program's own options come after its name"
                    : fmt::format("did you mean {}{}?", nearest.size() > 1 ? "--" : "-", nearest));
}

/// Takes the option at `at`, with its values, and moves `at` behind them.
Result<std::string> take_option(std::span<const std::string> arguments, std::size_t& at,
                                std::span<const OptionSpelling> spellings) {
  const std::string_view word = arguments[at++];
  OptionWord parts = cut(word);
  const OptionSpelling* spelling = find_spelling(parts.name, spellings);
  if (spelling == nullptr) {
    spelling = find_attached(word, spellings);
    if (spelling == nullptr) return unknown_option(word, spellings);
    parts.value = word.substr(2);
  }
  const std::string name = "--" + spelling->long_name;
  if (spelling->values == 0) {
    if (parts.value) return Status(Code::invalid_argument, fmt::format("option {} takes no value", word));
    return name;
  }
  std::string value(parts.value.value_or(""));
  for (int missing = spelling->values - (parts.value ? 1 : 0); missing > 0; --missing) {
    if (at == arguments.size())
      return Status(Code::invalid_argument, fmt::format("option {} needs {}", word,
                                                        spelling->values == 1 ? "a value" : "two values"));
    value += (value.empty() ? "" : " ") + arguments[at++];
  }
  if (value.empty()) return Status(Code::invalid_argument, fmt::format("option {} has an empty value", word));
  return name + "=" + value;
}

}  // namespace

Result<NormalisedArguments> normalise(std::span<const std::string> arguments,
                                      std::span<const OptionSpelling> spellings) {
  NormalisedArguments normalised;
  std::size_t at = 0;
  while (at < arguments.size()) {
    const std::string& word = arguments[at];
    if (word == "--") {
      ++at;
      break;
    }
    if (word.size() < 2 || word.front() != '-') break;
    auto option = take_option(arguments, at, spellings);
    if (!option.ok()) return std::move(option).status();
    normalised.options.push_back(*std::move(option));
  }
  const auto rest = arguments.subspan(at);
  normalised.program.assign(rest.begin(), rest.end());
  return normalised;
}

}  // namespace rondel
