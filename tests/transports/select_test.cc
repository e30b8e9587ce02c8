// SPDX-License-Identifier: Apache-2.0
#include "transports/select.h"

#include <algorithm>
#include <array>
#include <catch2/catch.hpp>
#include <map>

#include "tests/support/seed.h"

namespace rondel {
namespace {

using Hosts = std::vector<std::string>;

Offer offer(std::string name, std::uint64_t bytes_per_second, std::string domain = "all") {
  return {std::move(name),
          {.usable = true, .why_not = {}, .domain = std::move(domain), .bytes_per_second = bytes_per_second}};
}

Offer refusal(std::string name, std::string why_not) {
  return {std::move(name),
          {.usable = false, .why_not = std::move(why_not), .domain = {}, .bytes_per_second = 0}};
}

bool contains(const std::string& text, std::string_view part) { return text.find(part) != std::string::npos; }

TEST_CASE("the fastest transport that all ranks share is selected") {
  const std::array<Offers, 2> by_rank{
      {{offer("tcp", 10), offer("shm", 50)}, {offer("shm", 50), offer("tcp", 10)}}};
  const auto name = select_transport(by_rank, Hosts{"a", "a"}, "");
  REQUIRE(name.ok());
  CHECK(name->transport == "shm");
  CHECK(name->places.empty());
}

TEST_CASE("a transport is as fast as its slowest rank") {
  const std::array<Offers, 2> by_rank{
      {{offer("verbs", 90), offer("tcp", 10)}, {offer("verbs", 5), offer("tcp", 10)}}};
  CHECK(select_transport(by_rank, Hosts{"a", "b"}, "")->transport == "tcp");
}

TEST_CASE("between equally fast transports the name decides, on every rank alike") {
  const std::array<Offers, 2> by_rank{{{offer("b", 7), offer("a", 7)}, {offer("a", 7), offer("b", 7)}}};
  CHECK(select_transport(by_rank, Hosts{"x", "x"}, "")->transport == "a");
}

TEST_CASE("ranks in different domains do not share a transport") {
  const std::array<Offers, 2> by_rank{
      {{offer("shm", 50, "host a"), offer("tcp", 10)}, {offer("shm", 50, "host b"), offer("tcp", 10)}}};
  CHECK(select_transport(by_rank, Hosts{"a", "b"}, "")->transport == "tcp");
  const auto wanted = select_transport(by_rank, Hosts{"a", "b"}, "shm");
  REQUIRE(wanted.code() == Code::unavailable);
  CHECK(contains(wanted.status().text(),
                 "it joins ranks of one domain only, which rank 0 on a and rank 1 on b are not"));
}

/// Of a mux: usable everywhere, with an inner one that reaches ranks of equal `host`.
Offer mux(std::string host) {
  Offer mux = offer("shm+tcp", 10);
  mux.probe.inner_domain = std::move(host);
  return mux;
}

TEST_CASE("a mux is selected when some ranks share a place and not all do") {
  const auto places = [](std::vector<std::string> hosts, std::string_view wanted = "") {
    std::vector<Offers> by_rank;
    for (const std::string& host : hosts)
      by_rank.push_back(
          {offer("tcp", 10), host.empty() ? refusal("shm", "forbidden") : offer("shm", 50, host), mux(host)});
    auto choice = select_transport(by_rank, {}, wanted);
    REQUIRE(choice.ok());
    return *choice;
  };
  CHECK(places({"a", "b", "a", "b"}).transport == "shm+tcp");
  CHECK(places({"a", "b", "a", "b"}).places == std::vector<std::uint32_t>{0, 1, 0, 1});
  CHECK(places({"a", "a", "a"}).transport == "shm");
  CHECK(places({"a", "b", "c"}).transport == "tcp");
  CHECK(places({"a", "b", "c"}).places.empty());
  CHECK(places({"", "b", "b", ""}).places == std::vector<std::uint32_t>{0, 1, 1, 3});
  CHECK(places({"", "", ""}).transport == "tcp");
  CHECK(places({"a", "a"}, "shm+tcp").places == std::vector<std::uint32_t>{0, 0});
  CHECK(places({"a", "b"}, "shm+tcp").transport == "shm+tcp");
  CHECK(places({"a", "a", "b"}, "tcp").transport == "tcp");
}

TEST_CASE("a wanted transport is taken although another is faster") {
  const std::array<Offers, 1> by_rank{{{offer("tcp", 10), offer("shm", 50)}}};
  CHECK(select_transport(by_rank, Hosts{"a"}, "tcp")->transport == "tcp");
}

TEST_CASE("without a common transport every candidate's reason is told, with rank and host") {
  const std::array<Offers, 3> by_rank{
      {{offer("shm", 50), offer("tcp", 10)},
       {refusal("shm", "/dev/shm holds 64 KiB; make it larger"), offer("tcp", 10)},
       {offer("shm", 50)}}};
  const auto name = select_transport(by_rank, Hosts{"a", "b", "c"}, "");
  REQUIRE(name.code() == Code::unavailable);
  const std::string text = name.status().text();
  CHECK(contains(text, "shm: rank 1 on b: /dev/shm holds 64 KiB; make it larger"));
  CHECK(contains(text, "tcp: rank 2 on c does not have it in its build"));
}

TEST_CASE("a wanted transport that nobody knows is said so, with the way out") {
  const std::array<Offers, 2> by_rank{{{offer("tcp", 10)}, {offer("tcp", 10)}}};
  const auto name = select_transport(by_rank, Hosts{"a", "b"}, "quic");
  REQUIRE(name.code() == Code::unavailable);
  CHECK(contains(name.status().text(), "quic: rank 0 on a does not have it in its build (it has tcp)"));
  CHECK(contains(name.status().text(), "leave RONDEL_TRANSPORT (--transport) out"));
}

TEST_CASE("no offers at all is an answer, not a crash") {
  const std::array<Offers, 2> by_rank{};
  CHECK(select_transport(by_rank, Hosts{}, "").code() == Code::unavailable);
}

TEST_CASE("offers survive their encoding") {
  const Offers offers{offer("tcp", 123'456'789'012, "net"), refusal("shm", "no room"), mux("here")};
  const auto decoded = decode_offers(encode(offers));
  REQUIRE(decoded.ok());
  REQUIRE(decoded->size() == 3);
  CHECK((*decoded)[2].probe.inner_domain == "here");
  CHECK((*decoded)[0].name == "tcp");
  CHECK((*decoded)[0].probe.usable);
  CHECK((*decoded)[0].probe.domain == "net");
  CHECK((*decoded)[0].probe.bytes_per_second == 123'456'789'012);
  CHECK((*decoded)[1].name == "shm");
  CHECK_FALSE((*decoded)[1].probe.usable);
  CHECK((*decoded)[1].probe.why_not == "no room");
}

TEST_CASE("every shortened or lengthened encoding is refused") {
  Bytes bytes = encode({offer("tcp", 5), offer("shm", 6)});
  for (std::size_t length = 0; length < bytes.size(); ++length)
    CHECK(decode_offers(std::span(bytes).first(length)).code() == Code::refused);
  bytes.push_back(std::byte{0});
  CHECK(decode_offers(bytes).code() == Code::refused);
}

TEST_CASE("a count of offers beyond all sense is refused without room being made for it") {
  const Bytes bytes(4, std::byte{0xff});
  CHECK(decode_offers(bytes).code() == Code::refused);
}

/// An offer of shared memory with a beacon, as every rank of one kernel makes it.
Offers with_beacon(const std::string& domain) {
  Offer shm = offer("shm", 50, domain);
  Offer both = mux(domain);
  shm.probe.beacon = both.probe.beacon = Bytes(3, std::byte{7});
  return {shm, both, offer("tcp", 10)};
}

TEST_CASE("a rank tries the beacons of all that a transport joins it with") {
  const std::vector<Offers> by_rank{
      with_beacon("a"), with_beacon("b"), with_beacon("a"), {offer("shm", 50, "a")}};
  CHECK(beacons_to_try("shm", by_rank, 0) == std::vector<Rank>{2});  // rank 3 has none
  CHECK(beacons_to_try("shm", by_rank, 1).empty());
  CHECK(beacons_to_try("shm", by_rank, 2) == std::vector<Rank>{0});
  CHECK(beacons_to_try("shm+tcp", std::span(by_rank).first(3), 2) == std::vector<Rank>{0});
  CHECK(beacons_to_try("shm", by_rank, 3) == std::vector<Rank>{0, 2});
  CHECK(beacons_to_try("tcp", std::span(by_rank).first(3), 2).empty());
  CHECK(beacon_of("shm", by_rank[2]).size() == 3);
}

TEST_CASE("two containers that share a kernel and no memory: shared memory within, the next best between") {
  std::vector<Offers> by_rank(4, with_beacon("a"));
  REQUIRE(select_transport(by_rank, {}, "")->transport == "shm");
  const std::vector<std::vector<Rank>> unreached{{}, {0}, {1}, {0, 2}};
  separate("shm", by_rank, unreached);
  REQUIRE(select_transport(by_rank, {}, "")->transport == "shm+tcp");
  separate("shm+tcp", by_rank, unreached);
  CHECK(select_transport(by_rank, {}, "")->places == std::vector<std::uint32_t>{0, 1, 0, 1});
  const auto wanted = select_transport(by_rank, Hosts{"a", "a", "a", "a"}, "shm");
  REQUIRE(wanted.code() == Code::unavailable);
  CHECK(contains(wanted.status().text(), "rank 0 on a and rank 1 on a"));
}

TEST_CASE(
    "whoever reaches whom: ranks of one place all reach one another, and nobody is parted without need") {
  test::Random random(test::test_seed());
  for (int round = 0; round < 200; ++round) {
    const auto size = static_cast<std::size_t>(1 + random.below(12));
    const double forbidden = static_cast<double>(random.below(100)) / 100;
    std::vector<Offers> by_rank;
    std::vector<std::vector<Rank>> unreached(size);
    for (std::size_t rank = 0; rank < size; ++rank) {
      by_rank.push_back(with_beacon(random.happens(0.8) ? "a" : "b"));
    }
    for (std::size_t rank = 0; rank < size; ++rank)
      for (const Rank other : beacons_to_try("shm+tcp", by_rank, static_cast<Rank>(rank)))
        if (random.happens(forbidden)) unreached[rank].push_back(other);
    const auto before = select_transport(by_rank, {}, "shm+tcp")->places;
    separate("shm+tcp", by_rank, unreached);
    const auto after = select_transport(by_rank, {}, "shm+tcp")->places;
    const auto reaches = [&unreached](std::size_t rank, std::size_t other) {
      return std::ranges::find(unreached[rank], static_cast<Rank>(other)) == unreached[rank].end() &&
             std::ranges::find(unreached[other], static_cast<Rank>(rank)) == unreached[other].end();
    };
    for (std::size_t rank = 0; rank < size; ++rank) {
      for (std::size_t other = 0; other < rank; ++other)
        if (after[rank] == after[other]) CHECK((before[rank] == before[other] && reaches(rank, other)));
      // Who heads a place is at odds with somebody of each place before it.
      if (after[rank] != rank) continue;
      std::map<std::uint32_t, bool> odds;
      for (std::size_t other = 0; other < rank; ++other)
        if (before[rank] == before[other]) odds[after[other]] |= !reaches(rank, other);
      for (const auto& [place, at_odds] : odds) CHECK(at_odds);
    }
  }
}

}  // namespace
}  // namespace rondel
