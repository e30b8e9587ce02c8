// SPDX-License-Identifier: Apache-2.0
// Every option of the configuration table is described for people.
#include <catch2/catch.hpp>
#include <string>
#include <string_view>
#include <vector>

#include "lib/config.h"
#include "tests/policy/docs.h"
#include "tests/policy/tree.h"

namespace rondel::policy {

TEST_CASE("each option is in a man page", "[options]") {
  std::vector<std::string_view> names;
  for (const ConfigOption& option : config_options()) names.push_back(option.name);
  REQUIRE_FALSE(names.empty());
  std::string all;
  for (const std::string& text : option_findings(read_tree(RONDEL_SOURCE_ROOT), names)) all += text + "\n";
  INFO(all);
  CHECK(all.empty());
}

}  // namespace rondel::policy
