// SPDX-License-Identifier: Apache-2.0
#include "launcher/man_page.h"

#include <catch2/catch.hpp>
#include <sstream>

#include "launcher/options.h"
#include "lib/config.h"

using Catch::Matchers::Contains;

namespace {

std::string dashes_escaped(const std::string& text) {
  std::string out;
  for (const char c : text) {
    if (c == '-') out += '\\';
    out += c;
  }
  return out;
}

}  // namespace

TEST_CASE("the pages hold every row of the tables") {
  const std::string launcher = rondel::launcher_man_page("1.2.3");
  for (const auto& row : rondel::option_rows()) CHECK_THAT(launcher, Contains(dashes_escaped(row.names)));
  CHECK_THAT(launcher, Contains("Rondel 1.2.3") && Contains("LOCAL_WORLD_SIZE"));
  const std::string config = rondel::config_man_page("1.2.3");
  for (const auto& option : rondel::config_options())
    CHECK_THAT(config,
               Contains(std::string(option.name)) && Contains(dashes_escaped(std::string(option.text))));
}

TEST_CASE("every line that begins like a request is one we mean") {
  for (const std::string& page : {rondel::launcher_man_page("1"), rondel::config_man_page("1")}) {
    std::istringstream lines(page);
    for (std::string line; std::getline(lines, line);) {
      if (line.empty() || (line.front() != '.' && line.front() != '\'')) continue;
      const std::string request = line.substr(1, line.find(' ') - 1);
      INFO(line);
      CHECK((request == "TH" || request == "SH" || request == "TP" || request == "B" || request == "BR" ||
             request == "PP" || request == "br" || request == "nf" || request == "fi"));
    }
  }
}
