// SPDX-License-Identifier: Apache-2.0
// What people are told to set exists, and each setting is explained.
#include <catch2/catch.hpp>
#include <string>
#include <string_view>
#include <vector>

#include "lib/config.h"
#include "tests/policy/docs.h"
#include "tests/policy/tree.h"

namespace rondel::policy {

TEST_CASE("each setting that is mentioned exists", "[docs]") {
  std::vector<std::string_view> names;
  for (const ConfigOption& option : config_options()) {
    INFO(option.name);
    CHECK_FALSE(option.text.empty());
    CHECK(config_help().find(option.name) != std::string::npos);
    names.push_back(option.name);
  }
  REQUIRE_FALSE(names.empty());
  std::string all;
  for (const std::string& text : option_findings(read_tree(RONDEL_SOURCE_ROOT), names)) all += text + "\n";
  INFO(all);
  CHECK(all.empty());
}

}  // namespace rondel::policy
