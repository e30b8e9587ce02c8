// SPDX-License-Identifier: Apache-2.0
// Finding peers: absent ones are named in time, ports can be fixed, a connection to itself is noticed, limits
// are told.
#include <fcntl.h>
#include <net/if.h>
#include <sched.h>
#include <sys/ioctl.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include <catch2/catch.hpp>
#include <cstring>
#include <fstream>

#include "tests/support/process_world.h"
#include "tests/transports/tcp/world.h"

namespace rondel::tcp::test {

namespace {

bool enter_own_network(const char* ephemeral_ports) {
  if (::unshare(CLONE_NEWNET) != 0) return false;
  const UniqueFd any(::socket(AF_INET, SOCK_DGRAM, 0));
  ifreq request{};
  std::strcpy(request.ifr_name, "lo");
  request.ifr_flags = IFF_UP;
  if (::ioctl(any.get(), SIOCSIFFLAGS, &request) != 0) return false;
  std::ofstream range("/proc/sys/net/ipv4/ip_local_port_range");
  range << ephemeral_ports << std::flush;
  return range.good();
}

}  // namespace

TEST_CASE("a rank that never comes is named when the deadline passes, on either side of the dial") {
  const auto secret = Secret::generate();
  for (const Rank mine : {0, 1}) {
    const OneRank here = open_rank(*secret, mine, 2);
    std::vector<Bytes> addresses(2);
    const Rank peer = 1 - mine;
    {
      const OneRank gone = open_rank(*secret, peer, 2);  // it had an address, and died
      addresses[static_cast<std::size_t>(peer)] = gone.endpoint->address();
    }
    const auto started = Deadline::Clock::now();
    const Status status =
        here.endpoint->connect(addresses, std::span(&peer, 1), Deadline::in(std::chrono::milliseconds(400)));
    CHECK(Deadline::Clock::now() - started < std::chrono::seconds(2));
    CHECK(status.code() == Code::timed_out);
    CHECK(status.failure().peer == peer);
    CHECK_THAT(status.text(), Catch::Contains(peer == 1 ? "rank 1 (host here)" : "rank 0 (host here)"));
    if (mine == 0) CHECK_THAT(status.text(), Catch::Contains("127.0.0.1:") && Catch::Contains("refused"));
  }
}

TEST_CASE("fixed ports are used, and when all are taken the error says which and what to set") {
  const auto secret = Secret::generate();
  const OneRank holder = open_rank(*secret, 0, 1);
  const std::uint16_t taken = reach_of(*holder.endpoint).port;
  Config config;
  config.port_range = std::to_string(taken);
  CHECK_THROWS_WITH(open_rank(*secret, 0, 1, config),
                    Catch::Contains(std::to_string(taken)) && Catch::Contains("RONDEL_PORTS"));
  for (const char* bad : {"0-5", "9-5", "x", "5-", "70000", "5-6-7"}) {
    config.port_range = bad;
    INFO(bad);
    CHECK_THROWS_WITH(open_rank(*secret, 0, 1, config), Catch::Contains("RONDEL_PORTS"));
  }
}

TEST_CASE("who asks for encrypted links gets none in clear text") {
  Config config;
  config.encrypt = true;
  CHECK_THROWS_WITH(open_rank(*Secret::generate(), 0, 1, config), Catch::Contains("RONDEL_ENCRYPT"));
}

TEST_CASE("a congestion control that the kernel does not have is refused with those it has") {
  const auto secret = Secret::generate();
  Config config;
  config.tcp_congestion = "nope";
  CHECK_THROWS_WITH(open_rank(*secret, 0, 2, config),
                    Catch::Contains("RONDEL_TCP_CONGESTION=nope") && Catch::Contains("reno"));
  config.tcp_congestion = "reno";
  CHECK_NOTHROW(open_rank(*secret, 0, 2, config));
}

TEST_CASE("only the chosen address is listened on") {
  const auto secret = Secret::generate();
  const OneRank one = open_rank(*secret, 0, 1);
  const auto reach = decode_reach(one.endpoint->address());
  REQUIRE(reach->sockets.size() == 1);
  CHECK(reach->sockets[0].ip.text() == "127.0.0.1");
  auto other = reach->sockets[0];
  other.ip = *parse_ip("127.0.0.2");
  CHECK_FALSE(call(other));
}

TEST_CASE("a dial that would connect to itself is closed, and its port stays free") {
  rondel::test::ProcessWorld world(1, [](rondel::test::RankTest& test, const rondel::test::Voice& voice) {
    if (!enter_own_network("50000 50003")) return voice.say("skipped");
    const auto secret = Secret::generate();
    const OneRank zero = open_rank(*secret, 0, 2);
    Reach absent{decode_reach(zero.endpoint->address())->kernel, "here", {}};
    const std::uint16_t port = reach_of(*zero.endpoint).port == 50002 ? 50003 : 50002;
    absent.sockets.push_back({*parse_ip("127.0.0.1"), port});
    const std::vector<Bytes> addresses{zero.endpoint->address(), encode(absent)};
    const Rank peer = 1;
    const Status status =
        zero.endpoint->connect(addresses, std::span(&peer, 1), Deadline::in(std::chrono::milliseconds(700)));
    test.expect(status.code() == Code::timed_out,
                "no connection to itself was taken for rank 1: " + status.text());
    Config config;
    config.port_range = std::to_string(port);
    const OneRank late = open_rank(*secret, 1, 2, config);
    test.expect_equal(reach_of(*late.endpoint).port, port, "the port is still free for rank 1");
  });
  const auto ending = world.wait(0, Deadline::in(std::chrono::seconds(20)));
  if (ending.words.find("skipped") != std::string::npos) WARN("skipped: needs a network namespace (root)");
  INFO(ending.words);
  CHECK(ending.exit_code == 0);
}

TEST_CASE("too few descriptors: the error names the limit, nothing crashes") {
  rondel::test::ProcessWorld world(1, [](rondel::test::RankTest& test, const rondel::test::Voice&) {
    const UniqueFd next(::open("/dev/null", O_RDONLY | O_CLOEXEC));
    const rlimit few{static_cast<rlim_t>(next.get() + 2), static_cast<rlim_t>(next.get() + 2)};
    ::setrlimit(RLIMIT_NOFILE, &few);
    const auto secret = Secret::generate();
    const auto transport = tcp::make_transport({}, *secret);
    EndpointOptions options;
    options.single_host = true;
    const auto opened = transport->open(options);
    test.require(!opened.ok(), "opening fails without descriptors");
    test.expect(opened.status().text().find("ulimit -n") != std::string::npos, opened.status().text());
  });
  const auto ending = world.wait(0, Deadline::in(std::chrono::seconds(20)));
  INFO(ending.words);
  CHECK(ending.exit_code == 0);
}

TEST_CASE("no descriptor left to connect with: told at once, not as a peer that does not answer") {
  rondel::test::ProcessWorld world(1, [](rondel::test::RankTest& test, const rondel::test::Voice&) {
    const auto secret = Secret::generate();
    const OneRank here = open_rank(*secret, 0, 2);
    const OneRank there = open_rank(*secret, 1, 2);
    const std::vector<Bytes> addresses = {here.endpoint->address(), there.endpoint->address()};
    const rlimit none{0, 0};
    ::setrlimit(RLIMIT_NOFILE, &none);
    const Rank peer = 1;
    const Status status =
        here.endpoint->connect(addresses, std::span(&peer, 1), Deadline::in(std::chrono::seconds(15)));
    test.expect(status.code() == Code::out_of_resources, "the code of: " + status.text());
    test.expect(status.text().find("ulimit -n") != std::string::npos, status.text());
  });
  const auto ending = world.wait(0, Deadline::in(std::chrono::seconds(20)));
  INFO(ending.words);
  CHECK(ending.exit_code == 0);
}

}  // namespace rondel::tcp::test
