// SPDX-License-Identifier: Apache-2.0
#include "launcher/host_list.h"

#include <fmt/format.h>

#include <catch2/catch.hpp>
#include <string>
#include <vector>

#include "tests/support/seed.h"

using Catch::Matchers::Contains;
using rondel::Host;
using rondel::parse_host_list;
using rondel::Rank;
using Hosts = std::vector<Host>;

namespace {

Host host(std::string user, std::string name, Rank slots) {
  return {.user = std::move(user), .name = std::move(name), .slots = slots};
}

Hosts hosts_of(const std::string& text) {
  auto hosts = parse_host_list(text);
  INFO(text << ": " << hosts.status().text());
  REQUIRE(hosts.ok());
  return *std::move(hosts);
}

/// The error, which must show the item.
std::string error_of(const std::string& text, const std::string& item) {
  INFO(text);
  const auto hosts = parse_host_list(text);
  REQUIRE_FALSE(hosts.ok());
  CHECK(hosts.code() == rondel::Code::invalid_argument);
  std::string error = hosts.status().text();
  CHECK_THAT(error, Contains("\"" + item + "\"") && (Contains("expected") || Contains("write")));
  return error;
}

std::string error_of(const std::string& item) { return error_of(item, item); }

}  // namespace

TEST_CASE("every form of a host") {
  CHECK(hosts_of("h") == Hosts{host("", "h", 1)});
  CHECK(hosts_of("h:2") == Hosts{host("", "h", 2)});
  CHECK(hosts_of("user@h:2") == Hosts{host("user", "h", 2)});
  CHECK(hosts_of("[::1]:2") == Hosts{host("", "::1", 2)});
  CHECK(hosts_of("[::1]") == Hosts{host("", "::1", 1)});
  CHECK(hosts_of("user@[fe80::1%eth0]:4") == Hosts{host("user", "fe80::1%eth0", 4)});
  CHECK(hosts_of("127.0.0.1:65536") == Hosts{host("", "127.0.0.1", 65'536)});
  CHECK(hosts_of("a:2,b,u@n[1-2]:8") ==
        Hosts{host("", "a", 2), host("", "b", 1), host("u", "n1", 8), host("u", "n2", 8)});
  CHECK(hosts_of("n[01-02,7]:8,c") ==
        Hosts{host("", "n01", 8), host("", "n02", 8), host("", "n7", 8), host("", "c", 1)});
}

TEST_CASE("a host named again adds its slots, whatever its spelling") {
  CHECK(hosts_of("a:2,b:1,a,A:3") == Hosts{host("", "a", 6), host("", "b", 1)});
  CHECK(hosts_of("n[1-2],n[2,2]:4") == Hosts{host("", "n1", 1), host("", "n2", 9)});
  CHECK(hosts_of("[::1]:1,[0:0::0001]:2") == Hosts{host("", "::1", 3)});
  CHECK(hosts_of("[fe80::1%eth0],[fe80::1%eth1]").size() == 2);
  CHECK_THAT(error_of("a,u@a:2", "u@a:2"), Contains("as a and as u@a") && Contains("same user"));
  CHECK_THAT(error_of("u@n[1-3],v@n2", "v@n2"), Contains("u@n2") && Contains("v@n2"));
  CHECK_THAT(error_of("a:65536,a", "a"), Contains("65536 slots and 1 more"));
}

TEST_CASE("an IPv6 address without brackets is refused with the way to write it") {
  CHECK_THAT(error_of("fe80::1"), Contains("write [fe80::1]:SLOTS"));
  CHECK_THAT(error_of("::1:2"), Contains("write [::1]:2, or [::1:2]"));
  CHECK_THAT(error_of("u@fe80::1%eth0:4"), Contains("write [fe80::1%eth0]:4"));
  CHECK_THAT(error_of("1:2:3:4:5:6:7:8"), Contains("write [1:2:3:4:5:6:7:8]:SLOTS"));
  CHECK_THAT(error_of("a:2:3"), Contains("more than one ':'") && Contains("[::1]:2"));
}

TEST_CASE("brackets in front hold an IPv6 address") {
  for (const char* item : {"[1-4]:2", "[]", "[a]", "[127.0.0.1]", "[::1%]", "[::1%a/b]", "[1:2]"})
    CHECK_THAT(error_of(item), Contains("no IPv6 address"));
  CHECK_THAT(error_of("[::1"), Contains("']'"));
  CHECK_THAT(error_of("[::1]2"), Contains("\"2\" behind the ']'"));
  CHECK_THAT(error_of("[::1]:2:3"), Contains("slots: found \"2:3\""));
}

TEST_CASE("slots are whole numbers from 1 to 65536") {
  for (const char* slots : {"", "0", "-1", "x", "+1", "1.5", "2x", "65537", "99999999999999999999"})
    CHECK_THAT(error_of(fmt::format("h:{}", slots)),
               Contains(fmt::format("slots: found \"{}\"", slots)) && Contains("1 to 65536"));
}

TEST_CASE("empty items are refused, wherever they are") {
  for (const char* list : {"", ",", "a,", ",a", "a,,b"})
    CHECK_THAT(error_of(list), Contains("an item is empty"));
  CHECK_THAT(error_of(":2"), Contains("host name is missing"));
  CHECK_THAT(error_of("u@"), Contains("host name is missing"));
  CHECK_THAT(error_of("u@:2"), Contains("host name is missing"));
  CHECK_THAT(error_of("@h"), Contains("the user is \"\""));
}

TEST_CASE("nothing that ssh would take for an option, or a shell for a command, gets through") {
  for (const char* item : {"-oProxyCommand=x", "-h:2", "u@-h", "-[1-2]"})
    CHECK_THAT(error_of(item), Contains("begin with '-'") || Contains("in the host name"));
  CHECK_THAT(error_of("-l@h"), Contains("the user is \"-l\""));
  for (const char* item : {"u;v@h", "$(id)@h", "u v@h", "a@b@h", "h;id", "$(id)", "`id`", "h|x", "h&", "h>x"})
    error_of(item);
  CHECK_THAT(error_of(std::string(65, 'u') + "@h", std::string(60, 'u')), Contains("1 to 64 letters"));
}

TEST_CASE("spaces and control characters are refused and shown") {
  CHECK_THAT(error_of("a, b", " b"), Contains("a space"));
  CHECK_THAT(error_of("a\tb", "a\\tb"), Contains("a space"));
  CHECK_THAT(error_of("a\x1b[31m", "a\\x1b[31m"), Contains("the character \"\\x1b\""));
  CHECK_THAT(error_of("a\n", "a\\n"), Contains("\"\\n\""));
  CHECK_THAT(error_of(std::string("a\0b", 3), "a\\x00b"), Contains("\"\\x00\""));
  CHECK_THAT(error_of("h\xc3\xa9", "h\\xc3\\xa9"), Contains("\"\\xc3\""));
}

TEST_CASE("ranges keep their limit over the whole list, plain names have none") {
  CHECK_THAT(error_of("n[0-99999999999]"), Contains("is over 65536"));
  CHECK_THAT(error_of("a[1-65535],b[1-2]", "b[1-2]"), Contains("is over 1"));
  CHECK(hosts_of("a[1-65536],b,c[7]").size() == 65'538);
  CHECK_THAT(error_of("a,n[1-4", "n[1-4"), Contains("'[' without a ']'"));
}

TEST_CASE("what is printed of random hosts parses to the same hosts") {
  rondel::test::Random random(rondel::test::test_seed());
  const std::string letters = "abcXYZ019._-";
  const auto word = [&](std::size_t most) {
    std::string text(1, letters[random.below(9)]);  // no '-' in front
    for (std::size_t length = random.below(most); length > 0; --length)
      text += letters[random.below(letters.size())];
    return text;
  };
  for (int round = 0; round < 2'000; ++round) {
    Hosts hosts(1 + random.below(8));
    std::string text;
    for (std::size_t i = 0; i < hosts.size(); ++i) {
      const bool address = random.below(4) == 0;
      // The index keeps the names apart.
      hosts[i] =
          host(random.below(2) == 0 ? "" : word(20),
               address ? fmt::format("fe80::{:x}:1%{}", i + 1, word(8)) : fmt::format("{}{}", word(30), i),
               1 + static_cast<Rank>(random.below(65'536)));
      text += fmt::format("{}{}:{}", i == 0 ? "" : ",", name_of(hosts[i]), hosts[i].slots);
    }
    INFO(text);
    REQUIRE(hosts_of(text) == hosts);
  }
}

TEST_CASE("random rubbish is refused with words or gives hosts that are safe to name") {
  rondel::test::Random random(rondel::test::test_seed());
  const std::string letters = "ab-19[],:@%. \x01\xff";
  for (int round = 0; round < 50'000; ++round) {
    std::string text;
    for (std::size_t length = random.below(16); length > 0; --length)
      text += letters[random.below(letters.size())];
    const auto hosts = parse_host_list(text);
    if (!hosts.ok()) {
      REQUIRE_FALSE(hosts.status().text().empty());
      continue;
    }
    REQUIRE_FALSE(hosts->empty());
    for (const Host& each : *hosts) {
      INFO(text);
      REQUIRE(each.slots >= 1);
      REQUIRE_FALSE(each.name.empty());
      REQUIRE(each.name.front() != '-');
      REQUIRE((each.user.empty() || each.user.front() != '-'));
      REQUIRE((each.name + each.user).find_first_of("[],@ \x01\xff") == std::string::npos);
    }
  }
}
