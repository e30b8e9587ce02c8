// SPDX-License-Identifier: Apache-2.0
#include "launcher/host_range.h"

#include <catch2/catch.hpp>
#include <string>
#include <vector>

using Catch::Matchers::Contains;
using rondel::expand_names;
using rondel::kMostRangeHosts;
using Names = std::vector<std::string>;

namespace {

Names names_of(const std::string& pattern) {
  auto names = expand_names(pattern, kMostRangeHosts);
  INFO(pattern << ": " << names.status().text());
  REQUIRE(names.ok());
  return *std::move(names);
}

std::string error_of(const std::string& pattern, std::size_t most = kMostRangeHosts) {
  INFO(pattern);
  const auto names = expand_names(pattern, most);
  REQUIRE_FALSE(names.ok());
  CHECK(names.code() == rondel::Code::invalid_argument);
  return names.status().text();
}

}  // namespace

TEST_CASE("ranges make names in the order in which they are written") {
  CHECK(names_of("node-1.example_org") == Names{"node-1.example_org"});
  CHECK(names_of("n[01-03,7]") == Names{"n01", "n02", "n03", "n7"});
  CHECK(names_of("n[8-11]") == Names{"n8", "n9", "n10", "n11"});
  CHECK(names_of("n[098-101]") == Names{"n098", "n099", "n100", "n101"});
  CHECK(names_of("n[3,1-2]-ib.x") == Names{"n3-ib.x", "n1-ib.x", "n2-ib.x"});
  CHECK(names_of("10.0.0.[1-2]") == Names{"10.0.0.1", "10.0.0.2"});
  CHECK(names_of("a[1-2]b[3-4]") == Names{"a1b3", "a1b4", "a2b3", "a2b4"});
  CHECK(names_of("r[0-1][05-06]") == Names{"r005", "r006", "r105", "r106"});
  CHECK(names_of("n[5]") == Names{"n5"});
  CHECK(names_of("n[00-01]") == Names{"n00", "n01"});
}

TEST_CASE("malformed ranges are refused with the range") {
  for (const char* range : {"", "a", "1-", "-1", "1-2-3", "1--2", "+1", "1 ", "1-x", "0x1"})
    CHECK_THAT(error_of("n[" + std::string(range) + "]"),
               Contains("range \"" + std::string(range) + "\"") && Contains("expected numbers"));
  CHECK_THAT(error_of("n[1,,2]"), Contains("range \"\""));
  CHECK_THAT(error_of("n[1,]"), Contains("range \"\""));
  CHECK_THAT(error_of("n[4-1]"), Contains("\"4-1\"") && Contains("backwards"));
  CHECK_THAT(error_of("n[1-04]"), Contains("\"1-04\"") && Contains("different lengths"));
  CHECK_THAT(error_of("n[1[2]]"), Contains("\"1[2\""));
  CHECK_THAT(error_of("n[1-2"), Contains("']'"));
  CHECK_THAT(error_of("n1]"), Contains("\"]\""));
  for (const char* name : {"n/1", "n$x", "n;1", "n`", "n'", "n%h", "n\\", "n*", "n\xc3\xa9"})
    CHECK_THAT(error_of(name), Contains("in the host name") && Contains("expected letters"));
}

TEST_CASE("how many names there will be is known before any is made") {
  CHECK(names_of("n[1-65536]").size() == 65'536);
  CHECK(names_of("a[1-256]b[1-256]").size() == 65'536);
  CHECK_THAT(error_of("n[0-65536]"), Contains("is over 65536"));
  CHECK_THAT(error_of("n[1-65536,1]"), Contains("is over 65536"));
  CHECK_THAT(error_of("n[0-999999999999999999]"), Contains("is over 65536"));
  CHECK_THAT(error_of("a[0-65535]b[0-65535]c[0-65535]d[0-65535]e[0-65535]"), Contains("is over 65536"));
  std::string wide = "n[0-999999999999999999";
  for (int i = 0; i < 40; ++i) wide += ",0-999999999999999999";
  CHECK_THAT(error_of(wide + "]"), Contains("is over 65536"));
  CHECK_THAT(error_of("n[1-18446744073709551617]"), Contains("18 digits"));
  CHECK_THAT(error_of("n[1-3]", 2), Contains("is over 2"));
  CHECK(expand_names("n[1-2]", 2)->size() == 2);
  CHECK(expand_names("n", 0)->size() == 1);
}

TEST_CASE("a name may be as long as the domain name system allows") {
  CHECK(names_of(std::string(253, 'n')).front().size() == 253);
  CHECK(names_of(std::string(250, 'n') + "[98-100]").back().size() == 253);
  CHECK_THAT(error_of(std::string(254, 'n')), Contains("too long") && Contains("253"));
  CHECK_THAT(error_of(std::string(251, 'n') + "[98-100]"), Contains("too long"));
}
