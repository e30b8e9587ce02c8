// SPDX-License-Identifier: Apache-2.0
// The order in which a peer's addresses are tried, and their way over the wire.
#include "transports/reach.h"

#include <catch2/catch.hpp>

namespace rondel {

namespace {

IpAddress ip(const char* text) { return *parse_ip(text); }

const std::vector<Interface> kHost = {{"lo", ip("127.0.0.1"), 8},
                                      {"eth1", ip("10.0.0.5"), 24},
                                      {"eth10", ip("192.168.7.5"), 16},
                                      {"docker0", ip("172.17.0.1"), 16},
                                      {"eth1", ip("fd00:1::5"), 64}};

std::string order(const Reach& peer, const char* my_kernel) {
  std::string text;
  for (const SocketAddress& s : candidates(peer, my_kernel, kHost))
    text += (text.empty() ? "" : " ") + s.text();
  return text;
}

}  // namespace

TEST_CASE("under one kernel loopback is tried first") {
  const Reach peer{"k1", "a", {{ip("10.0.0.9"), 1}, {ip("127.0.0.1"), 2}}};
  CHECK(order(peer, "k1") == "127.0.0.1:2 10.0.0.9:1");
}

TEST_CASE(
    "between hosts loopback and addresses that this host has too are never tried, shared networks first") {
  const Reach peer{"k2",
                   "b",
                   {{ip("127.0.0.1"), 1},
                    {ip("172.17.0.1"), 2},
                    {ip("8.8.0.1"), 3},
                    {ip("10.0.0.9"), 4},
                    {ip("fd00:1::9"), 5}}};
  CHECK(order(peer, "k1") == "10.0.0.9:4 [fd00:1::9]:5 8.8.0.1:3");
}

TEST_CASE("an address blob survives the wire, and no cut or longer one does") {
  const Reach reach{"kernel", "host", {{ip("10.0.0.9"), 4000}, {ip("fd00:1::9"), 5}}};
  const auto bytes = encode(reach);
  const auto back = decode_reach(bytes);
  REQUIRE(back.ok());
  CHECK(back->kernel == "kernel");
  CHECK(back->host == "host");
  REQUIRE(back->sockets.size() == 2);
  CHECK(back->sockets[0].text() == "10.0.0.9:4000");
  CHECK(back->sockets[1].text() == "[fd00:1::9]:5");
  for (std::size_t cut = 0; cut < bytes.size(); ++cut) {
    INFO(cut);
    CHECK_FALSE(decode_reach(std::span(bytes).first(cut)).ok());
  }
  auto longer = bytes;
  longer.push_back(std::byte{0});
  CHECK_FALSE(decode_reach(longer).ok());
}

}  // namespace rondel
