// SPDX-License-Identifier: Apache-2.0
// RONDEL_NET: which of a host's addresses are used.
#include "lib/interfaces.h"

#include <algorithm>
#include <catch2/catch.hpp>

namespace rondel {

namespace {

IpAddress ip(const char* text) { return *parse_ip(text); }

const std::vector<Interface> kHost = {{"lo", ip("127.0.0.1"), 8},
                                      {"eth1", ip("10.0.0.5"), 24},
                                      {"eth10", ip("192.168.7.5"), 16},
                                      {"docker0", ip("172.17.0.1"), 16},
                                      {"eth1", ip("fd00:1::5"), 64}};

std::string chosen(const char* filter) {
  const auto parsed = NetFilter::parse(filter);
  if (!parsed.ok()) return "bad";
  const auto result = parsed->choose(kHost);
  if (!result.ok()) return result.status().text();
  std::string text;
  for (const Interface& i : *result) text += (text.empty() ? "" : " ") + i.address.text();
  return text;
}

}  // namespace

TEST_CASE("without a filter every address but loopback is used") {
  CHECK(chosen("") == "10.0.0.5 192.168.7.5 172.17.0.1 fd00:1::5");
}

TEST_CASE("a name means exactly that interface, a star the names that begin so") {
  CHECK(chosen("eth1") == "10.0.0.5 fd00:1::5");
  CHECK(chosen("eth1*") == "10.0.0.5 192.168.7.5 fd00:1::5");
}

TEST_CASE("networks choose by address, also IPv6, and loopback when it is named") {
  CHECK(chosen("192.168.0.0/16") == "192.168.7.5");
  CHECK(chosen("fd00::/16,10.0.0.0/24") == "10.0.0.5 fd00:1::5");
  CHECK(chosen("lo") == "127.0.0.1");
  CHECK(chosen("127.0.0.0/8") == "127.0.0.1");
}

TEST_CASE("exclusions win, alone they leave everything else") {
  CHECK(chosen("^docker0") == "10.0.0.5 192.168.7.5 fd00:1::5");
  CHECK(chosen("eth1*,^192.168.0.0/16") == "10.0.0.5 fd00:1::5");
}

TEST_CASE("a filter that fits nothing lists what there is") {
  const std::string text = chosen("nope0");
  CHECK_THAT(text, Catch::Contains("nope0") && Catch::Contains("eth10 192.168.7.5/16") &&
                       Catch::Contains("docker0 172.17.0.1/16"));
}

TEST_CASE("what can not be read is refused with the form to write") {
  for (const char* bad :
       {"10.0.0.0/33", "fd00::/129", "^", "a,,b", "*", "e*h", "10.0.0/8", "10.0.0.0/x", "1.2.3.4/"}) {
    INFO(bad);
    const auto parsed = NetFilter::parse(bad);
    REQUIRE_FALSE(parsed.ok());
    CHECK(parsed.code() == Code::invalid_argument);
    CHECK_THAT(parsed.status().text(), Catch::Contains("RONDEL_NET") && Catch::Contains("10.0.0.0/8"));
  }
}

TEST_CASE("the system lists loopback") {
  const auto found = system_interfaces();
  REQUIRE(found.ok());
  CHECK(
      std::any_of(found->begin(), found->end(), [](const Interface& i) { return i.address.is_loopback(); }));
  CHECK(std::none_of(found->begin(), found->end(),
                     [](const Interface& i) { return i.address.is_link_local(); }));
}

}  // namespace rondel
