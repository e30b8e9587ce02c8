// SPDX-License-Identifier: Apache-2.0
#include "launcher/host_file.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <sys/stat.h>
#include <unistd.h>

#include <catch2/catch.hpp>
#include <chrono>
#include <cstdio>
#include <fstream>
#include <memory>
#include <string>
#include <vector>

#include "launcher/text_file.h"
#include "tests/lib/temporary_directory.h"
#include "tests/support/seed.h"

using Catch::Matchers::Contains;
using rondel::Host;
using rondel::HostFile;
using rondel::parse_host_file;
using rondel::Rank;
using Hosts = std::vector<Host>;

namespace {

Host host(std::string name, Rank slots, std::string user = {}, std::uint16_t port = 0) {
  return {.user = std::move(user), .name = std::move(name), .ssh_port = port, .slots = slots};
}

HostFile file_of(std::string_view text) {
  auto file = parse_host_file(text, "hosts");
  INFO(file.status().text());
  REQUIRE(file.ok());
  return *std::move(file);
}

Hosts hosts_of(std::string_view text) {
  HostFile file = file_of(text);
  CHECK(file.warnings.empty());
  return std::move(file.hosts);
}

std::string error_of(std::string_view text) {
  const auto file = parse_host_file(text, "hosts");
  REQUIRE_FALSE(file.ok());
  CHECK(file.code() == rondel::Code::invalid_argument);
  CHECK_THAT(file.status().text(), Contains("hosts") && (Contains("expected") || Contains("write")));
  return file.status().text();
}

}  // namespace

TEST_CASE("both dialects, mixed") {
  CHECK(hosts_of("a slots=2\nb slots = 3\nc slots= 4\nd slots =5\ne:6\nf\n") ==
        Hosts{host("a", 2), host("b", 3), host("c", 4), host("d", 5), host("e", 6), host("f", 1)});
  CHECK(hosts_of("u@a slots=2 port=2222\nb user=v port = 22\n[::1] slots=2\n") ==
        Hosts{host("a", 2, "u", 2222), host("b", 1, "v", 22), host("::1", 2)});
  CHECK(hosts_of("n[01-02,7] slots=8 user=u\n") ==
        Hosts{host("n01", 8, "u"), host("n02", 8, "u"), host("n7", 8, "u")});
}

TEST_CASE("the files that Kubernetes' MPI operator writes") {
  CHECK(hosts_of("train-worker-0.train.team-a.svc slots=2\ntrain-worker-1.train.team-a.svc slots=2\n") ==
        Hosts{host("train-worker-0.train.team-a.svc", 2), host("train-worker-1.train.team-a.svc", 2)});
  CHECK(hosts_of("train-worker-0.train.team-a.svc:2\ntrain-worker-1.train.team-a.svc:2\n") ==
        Hosts{host("train-worker-0.train.team-a.svc", 2), host("train-worker-1.train.team-a.svc", 2)});
  CHECK(hosts_of("train-worker-0 slots=8\ntrain-worker-1 slots=8") ==  // its first version
        Hosts{host("train-worker-0", 8), host("train-worker-1", 8)});
}

TEST_CASE("an IPv6 address needs no brackets where slots= leaves no doubt") {
  CHECK(hosts_of("fd00::1 slots=2\nu@fd00:0::2 slots = 3\n[fd00::3]:4\n") ==
        Hosts{host("fd00::1", 2), host("fd00::2", 3, "u"), host("fd00::3", 4)});
  CHECK_THAT(error_of("fd00::1:2"), Contains("write [fd00::1]:2, or [fd00::1:2]"));
  CHECK_THAT(error_of("fd00::1"), Contains("write [fd00::1]:SLOTS"));
}

TEST_CASE("what editors and other systems leave in a file") {
  const Hosts two{host("a", 2), host("b", 1)};
  CHECK(hosts_of("a slots=2\nb") == two);
  CHECK(hosts_of("\xef\xbb\xbf"
                 "a slots=2\r\nb\r\n") == two);
  CHECK(hosts_of("# all\n\n \t\n\ta\tslots=2\t# the \x01 first\n  b  \n#c\n") == two);
  CHECK(hosts_of("a:2#c\nb # c # d") == two);
}

TEST_CASE("a host on several lines adds up; another port is another host") {
  CHECK(hosts_of("a\nb slots=2\na\na slots=3\n") == Hosts{host("a", 5), host("b", 2)});
  CHECK(hosts_of("127.0.0.1 port=2201\n127.0.0.1 port=2202 slots=2\n") ==
        Hosts{host("127.0.0.1", 1, "", 2201), host("127.0.0.1", 2, "", 2202)});
  CHECK_THAT(error_of("u@a\na user=v\n"), Contains("hosts:2: \"a user=v\"") && Contains("u@a and as v@a"));
}

TEST_CASE("max_slots is ignored with one note for the file") {
  const HostFile one = file_of("a\nb slots=2 max_slots=4\n");
  CHECK(one.hosts == Hosts{host("a", 1), host("b", 2)});
  REQUIRE(one.warnings.size() == 1);
  CHECK_THAT(one.warnings.front(),
             Contains("hosts:2: max_slots has no effect;") && Contains("--oversubscribe"));
  const HostFile more = file_of("a max-slots=4\nb max_slots = 4\nc max-slots=x\n");
  REQUIRE(more.warnings.size() == 1);
  CHECK_THAT(more.warnings.front(), Contains("hosts:1:") && Contains("2 more lines"));
}

TEST_CASE("errors name file, line and text") {
  CHECK_THAT(error_of("a\n\nb slots=x # c\n"), Contains("hosts:3: \"b slots=x # c\": slots: found \"x\""));
  CHECK_THAT(error_of("a:0"), Contains("hosts:1: \"a:0\"") && Contains("1 to 65536"));
  CHECK_THAT(error_of("a slots=2\rb\n"), Contains("\\r"));
  CHECK_THAT(error_of("a\x1b[2J slots=2"), Contains("a\\x1b[2J slots=2") && !Contains("\x1b"));
  CHECK_THAT(error_of(std::string("a\0", 2)), Contains("\\x00"));
  CHECK_THAT(error_of("\xff\xfe"
                      "a"),
             Contains("\\xff"));
  CHECK_THAT(error_of("a slots=" + std::string(500, '1')),
             Contains("\"...") && !Contains(std::string(100, '1')));
  CHECK_THAT(error_of("-oProxyCommand=x slots=1"), Contains("hosts:1"));
  CHECK_THAT(error_of("a,b"), Contains("\",\" in the host name"));
  CHECK_THAT(error_of("n[1-2,"), Contains("']'"));
  CHECK_THAT(error_of("n[1-70000]"), Contains("is over 65536"));
  CHECK_THAT(error_of("a[1-65535]\nb[1-2]"), Contains("hosts:2") && Contains("is over 1"));
}

TEST_CASE("settings are known ones, once, with a value that makes sense") {
  CHECK_THAT(error_of("a slot=4"), Contains("unknown key \"slot\"") &&
                                       Contains("slots, port, user or max_slots") &&
                                       Contains("did you mean slots?"));
  CHECK_THAT(error_of("a zzzzzzzz=4"), Contains("slots, port, user") && !Contains("did you mean"));
  CHECK_THAT(error_of("a slots=1 slots=2"), Contains("slots is given twice"));
  CHECK_THAT(error_of("a:1 slots=2"), Contains("slots are given twice"));
  CHECK_THAT(error_of("u@a user=u"), Contains("user is given twice"));
  for (const char* port : {"0", "65536", "-1", "ssh"})
    CHECK_THAT(error_of(fmt::format("a port={}", port)), Contains("port: found") && Contains("1 to 65535"));
  CHECK_THAT(error_of("a user=-l"), Contains("the user is \"-l\""));
  CHECK_THAT(error_of("a 4"), Contains("found \"4\" behind the host") && Contains("slots=4"));
  CHECK_THAT(error_of("a b"), Contains("found \"b\""));
  CHECK_THAT(error_of("a slots=2 3"), Contains("found \"3\""));
  CHECK_THAT(error_of("a slots="), Contains("no value behind \"slots\" ="));
  CHECK_THAT(error_of("a slots==2"), Contains("no value behind \"slots\" ="));
  CHECK_THAT(error_of("a k\x1b="), Contains("no value behind \"k\\x1b\"") && !Contains("\x1b"));
  CHECK_THAT(error_of("a = 2"), Contains("does not begin with a host"));
  CHECK_THAT(error_of("slots=2"), Contains("does not begin with a host"));
}

TEST_CASE("a file without hosts is an error, not this host") {
  for (const char* text : {"", "\n", "# nothing\n", "\xef\xbb\xbf"})
    CHECK_THAT(error_of(text), Contains("hosts names no host"));
}

TEST_CASE("a file that can not be read is named with the reason") {
  const auto missing = rondel::read_host_file("/nope/hosts");
  REQUIRE_FALSE(missing.ok());
  CHECK(missing.code() == rondel::Code::unavailable);
  CHECK_THAT(missing.status().text(), Contains("/nope/hosts") && Contains("No such file or directory"));
  CHECK_THAT(rondel::read_host_file("/").status().text(),
             Contains("hostfile /:") && Contains("Is a directory"));
  CHECK_THAT(rondel::read_host_file("/dev/zero").status().text(),
             Contains("/dev/zero is larger than 16 MiB"));
  CHECK_THAT(rondel::read_host_file("/dev/null").status().text(), Contains("/dev/null names no host"));
}

TEST_CASE("a pipe is read to its end") {
  int ends[2];
  REQUIRE(::pipe(ends) == 0);
  REQUIRE(::write(ends[1], "a slots=2\nb\n", 12) == 12);
  ::close(ends[1]);
  const std::string path = fmt::format("/dev/fd/{}", ends[0]);
  const auto file = rondel::read_host_file(path);
  ::close(ends[0]);
  REQUIRE(file.ok());
  CHECK(file->hosts == Hosts{host("a", 2), host("b", 1)});
}

TEST_CASE("random hosts survive being printed in any dialect") {
  rondel::test::Random random(rondel::test::test_seed());
  const auto space = [&random] { return std::string(random.below(3), random.below(2) == 0 ? ' ' : '\t'); };
  for (int round = 0; round < 2'000; ++round) {
    Hosts hosts(1 + random.below(6));
    std::string text = random.below(2) == 0 ? "" : "\xef\xbb\xbf";
    const char* end = random.below(2) == 0 ? "\n" : "\r\n";
    for (std::size_t i = 0; i < hosts.size(); ++i) {
      const bool address = random.below(4) == 0;
      hosts[i] = host(fmt::format("{}{:x}", address ? "fe80::1:" : "node", i + 1),
                      1 + static_cast<Rank>(random.below(9)), random.below(2) == 0 ? "" : "user",
                      static_cast<std::uint16_t>(random.below(3) * 22));
      const Host& each = hosts[i];
      const bool user_behind = !each.user.empty() && random.below(2) == 0;
      text += space() + name_of(user_behind ? host(each.name, 1) : each);
      if (random.below(2) == 0)
        text += fmt::format(":{}", each.slots);
      else
        text += fmt::format(" {}slots{}={}{}", space(), space(), space(), each.slots);
      if (user_behind) text += fmt::format(" user{}={}", space(), space() + each.user);
      if (each.ssh_port != 0) text += fmt::format("\tport={}", each.ssh_port);
      text += space() + (random.below(3) == 0 ? "# \"comment\" = 7" : "");
      if (i + 1 < hosts.size() || random.below(2) == 0) text += end;
      if (random.below(5) == 0) text += std::string("# line") + end;
    }
    INFO(text);
    REQUIRE(hosts_of(text) == hosts);
  }
}

TEST_CASE("a named pipe that nobody writes to is not waited for without limit; a zero byte is no text") {
  const rondel::test::TemporaryDirectory folder;
  const std::string path = folder.path() + "/a file";
  REQUIRE(::mkfifo(path.c_str(), 0600) == 0);
  const auto silent = rondel::read_text_file(path, "hostfile", std::chrono::milliseconds(20));
  CHECK(silent.code() == rondel::Code::timed_out);
  CHECK_THAT(silent.status().text(), Contains(path) && Contains("nobody has written"));
  REQUIRE(::unlink(path.c_str()) == 0);
  std::ofstream(path) << "np = 2" << '\0' << "\nverbose\n";
  CHECK_THAT(rondel::read_text_file(path, "configuration file").status().text(),
             Contains(path) && Contains("zero byte"));
}
