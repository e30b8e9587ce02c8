// SPDX-License-Identifier: Apache-2.0
#include "tests/support/rank_test.h"

#include <fmt/format.h>

namespace rondel::test {

bool RankTest::expect(bool holds, std::string_view what, Where where) {
  if (!holds) note(what, where);
  return holds;
}

void RankTest::require(bool holds, std::string_view what, Where where) {
  if (!holds) stop(what, where);
}

void RankTest::note(std::string_view what, Where where) {
  std::string_view file = where.file;
  if (const auto slash = file.rfind('/'); slash != std::string_view::npos) file.remove_prefix(slash + 1);
  failures_.push_back(fmt::format("rank {}: {}:{}: {}", rank_, file, where.line, what));
}

void RankTest::stop(std::string_view what, Where where) {
  note(what, where);
  throw Stopped{};
}

std::string all_of(const std::vector<std::string>& failures) {
  std::string text;
  for (const std::string& failure : failures) text += (text.empty() ? "" : "\n") + failure;
  return text;
}

}  // namespace rondel::test
