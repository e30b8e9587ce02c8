// SPDX-License-Identifier: Apache-2.0
#include "launcher/store_finder.h"

#include <catch2/catch.hpp>
#include <chrono>

#include "lib/store/tcp_server.h"

using Catch::Matchers::Contains;
using rondel::Deadline;
using rondel::parse_ssh_connection;
using rondel::Secret;

namespace {

rondel::Result<std::string> find_store(std::vector<std::string> stores, const std::string& likely,
                                       const Secret& secret, Deadline deadline) {
  rondel::StoreSearch search(std::move(stores), likely, secret, deadline);
  for (;;)
    if (auto found = search.try_next()) return *std::move(found);
}

}  // namespace

TEST_CASE("the ends of an ssh connection are read from its variable, or not at all") {
  const auto route = parse_ssh_connection("10.0.0.1 50000 10.0.0.2 22");
  REQUIRE(route.has_value());
  CHECK(route->client == "10.0.0.1");
  CHECK(route->server == "10.0.0.2");
  CHECK(parse_ssh_connection("::ffff:10.0.0.1 1 ::1 2")->client == "10.0.0.1");
  for (const char* wrong : {"", "x", "10.0.0.1 1", "UNKNOWN 65535 UNKNOWN 65535", "10.0.0.1 1 name 2"})
    CHECK_FALSE(parse_ssh_connection(wrong).has_value());
  CHECK_FALSE(parse_ssh_connection(nullptr).has_value());
}

TEST_CASE("of several addresses the one is taken at which this job's server answers") {
  const Secret secret = *Secret::generate();
  const auto ours = rondel::TcpServer::start({}, secret);
  const auto others = rondel::TcpServer::start({}, *Secret::generate());
  REQUIRE(ours.ok());
  REQUIRE(others.ok());
  const auto found = find_store({(*others)->address(), "127.0.0.1:1", (*ours)->address()}, "", secret,
                                Deadline::in(std::chrono::seconds(20)));
  REQUIRE(found.ok());
  CHECK(*found == (*ours)->address());
}

TEST_CASE("when none answers all are named") {
  const auto found = find_store({"127.0.0.1:1", "127.0.0.2:1"}, "127.0.0.2", *Secret::generate(),
                                Deadline::in(std::chrono::milliseconds(100)));
  REQUIRE_FALSE(found.ok());
  CHECK_THAT(
      found.status().text(),
      Contains("127.0.0.2:1 (connection refused), nobody listens on 127.0.0.1:1 (") && Contains("--net"));
}

TEST_CASE("advertised addresses follow the filter") {
  const auto loopback = rondel::advertised_stores("127.0.0.0/8", 4321);
  REQUIRE(loopback.ok());
  CHECK(loopback->front() == "127.0.0.1:4321");
  CHECK_FALSE(rondel::advertised_stores("no-such-interface", 4321).ok());
}
