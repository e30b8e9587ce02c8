// SPDX-License-Identifier: Apache-2.0
#include "lib/slurm.h"

#include <algorithm>
#include <charconv>
#include <optional>

namespace rondel {
namespace {

/// Takes a whole number of at least 1 off `text`.
std::optional<std::int32_t> take_number(std::string_view& text) {
  std::int32_t number = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), number);
  if (error != std::errc() || number < 1) return std::nullopt;
  text.remove_prefix(static_cast<std::size_t>(end - text.data()));
  return number;
}

}  // namespace

std::vector<std::int32_t> slurm_counts(std::string_view list) {
  constexpr std::string_view kTimes = "(x";
  std::vector<std::int32_t> counts;
  for (;;) {
    const auto count = take_number(list);
    if (!count) return {};
    std::optional<std::int32_t> times = 1;
    if (list.starts_with(kTimes)) {
      list.remove_prefix(kTimes.size());
      times = take_number(list);
      if (!times || !list.starts_with(')')) return {};
      list.remove_prefix(1);
    }
    if (static_cast<std::size_t>(*times) > kMostSlurmNodes - counts.size()) return {};
    counts.insert(counts.end(), static_cast<std::size_t>(*times), *count);
    if (list.empty()) return counts;
    if (!list.starts_with(',')) return {};
    list.remove_prefix(1);
  }
}

}  // namespace rondel
