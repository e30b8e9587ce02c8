// SPDX-License-Identifier: Apache-2.0
// How a queue pair is brought up: MTU, addressing, retries; and offers that do not fit.
#include <catch2/catch.hpp>
#include <cerrno>
#include <chrono>
#include <string>

#include "tests/transports/verbs/world.h"
#include "transports/verbs/queue_pair.h"

namespace rondel::verbs::test {
namespace {

Config on_device(const char* name) {
  Config config;
  config.verbs_device = name;
  return config;
}

TEST_CASE("D24: between devices of different MTU the smaller one is used, and large works pass") {
  FakeVerbs fabric(
      {FakeDevice{.name = "large", .mtu = IBV_MTU_4096}, FakeDevice{.name = "small", .mtu = IBV_MTU_1024}});
  PairOfRanks ranks({on_device("large"), on_device("small")});
  CHECK(fabric.last_path().mtu == IBV_MTU_1024);
  CHECK(ranks.send(10) == "");
  CHECK(ranks.send(5'000'000) == "");
}

TEST_CASE(
    "F14: on Ethernet packets carry a global header, whatever the LID is; on InfiniBand they need none") {
  {
    FakeVerbs fabric({FakeDevice{.lid = 1}});
    PairOfRanks ranks;
    CHECK(fabric.last_path().global);
    CHECK(ranks.send(100) == "");
  }
  FakeVerbs fabric(
      {FakeDevice{.link_layer = IBV_LINK_LAYER_INFINIBAND, .lid = 3, .gids = {{IBV_GID_TYPE_IB, 1}}}});
  PairOfRanks ranks;
  CHECK_FALSE(fabric.last_path().global);
  CHECK(ranks.send(100) == "");
}

TEST_CASE("what packets are marked with reaches the queue pair; a traffic class needs a global header") {
  FakeVerbs fabric(
      {FakeDevice{.link_layer = IBV_LINK_LAYER_INFINIBAND, .lid = 3, .gids = {{IBV_GID_TYPE_IB, 1}}}});
  Config config;
  config.verbs_pkey_index = 2;
  config.verbs_service_level = 5;
  config.verbs_traffic_class = 104;
  PairOfRanks ranks({config, config});
  CHECK(fabric.last_path().pkey_index == 2);
  CHECK(fabric.last_path().service_level == 5);
  CHECK(fabric.last_path().traffic_class == 104);
  CHECK(fabric.last_path().global);
}

TEST_CASE("F15: settings that a device does not take end the connecting at once, with all of them") {
  FakeVerbs fabric;
  const auto secret = Secret::generate();
  const OneRank zero = open_rank(*secret, 0);
  const OneRank one = open_rank(*secret, 1);
  fabric.fail_call(FakeCall::modify_qp, EINVAL);
  const auto started = Deadline::Clock::now();
  const auto statuses = connect_pair(*zero.endpoint, *one.endpoint, Deadline::in(std::chrono::seconds(60)));
  CHECK(Deadline::Clock::now() - started < std::chrono::seconds(30));  // no later try helps
  for (const Status& status : statuses) {
    CHECK(status.code() == Code::unsupported);
    CHECK(status.failure().peer == kNoRank);
    for (const char* part : {"MTU", "GID", "pkey index 0", "service level 0", "RONDEL_VERBS_GID_INDEX"})
      CHECK(status.text().find(part) != std::string::npos);
  }
}

TEST_CASE("F12: no retry count means for ever") {
  FakeVerbs fabric;
  PairOfRanks ranks;
  CHECK(fabric.last_path().retries < 7);
  CHECK(fabric.last_path().retries > 0);
  CHECK(fabric.last_path().receiver_not_ready_retries < 7);
}

TEST_CASE("a vanished peer is known within half of the silence limit, whatever that is") {
  for (const int seconds : {1, 3, 10, 60, 600}) {
    const std::chrono::milliseconds silence = std::chrono::seconds(seconds);
    const auto all_tries =
        std::chrono::nanoseconds(4096LL << patience_for(silence).timeout) * (PairPatience::kRetries + 1);
    CHECK(all_tries <= silence / 2);
    CHECK(all_tries > std::chrono::milliseconds(100));
  }
}

TEST_CASE("an offer survives its way over the wire, and one that is cut or senseless is refused") {
  const PairOffer offer{.layout = 1,
                        .link_layer = LinkLayer::infiniband,
                        .gid = {1, 2, 3},
                        .lid = 7,
                        .number = 0x123456,
                        .first_psn = 0xabcdef,
                        .mtu_bytes = 2048};
  const Bytes bytes = encode(offer);
  REQUIRE(bytes.size() == kOfferBytes);
  const auto read = decode_offer(bytes);
  REQUIRE(read.ok());
  CHECK(
      (read->gid == offer.gid && read->lid == 7 && read->number == 0x123456 && read->first_psn == 0xabcdef));
  CHECK((read->link_layer == LinkLayer::infiniband && read->mtu_bytes == 2048));
  for (std::size_t cut = 0; cut < bytes.size(); ++cut)
    CHECK(decode_offer(std::span(bytes).first(cut)).code() == Code::refused);
  CHECK(decode_offer(Bytes(kOfferBytes, std::byte{0xff})).code() == Code::refused);
}

TEST_CASE("D25: other versions and other networks are refused, showing both sides") {
  PairOffer mine{.layout = 1, .link_layer = LinkLayer::ethernet, .mtu_bytes = 1024};
  PairOffer theirs = mine;
  CHECK(check_offer(mine, theirs).ok());
  theirs.layout = 2;
  const Status version = check_offer(mine, theirs);
  CHECK(version.code() == Code::refused);
  CHECK(version.text().find("version 2") != std::string::npos);
  CHECK(version.text().find("version 1") != std::string::npos);
  theirs = mine;
  theirs.link_layer = LinkLayer::infiniband;
  const Status network = check_offer(mine, theirs);
  CHECK(network.text().find("InfiniBand") != std::string::npos);
  CHECK(network.text().find("Ethernet") != std::string::npos);
}

}  // namespace
}  // namespace rondel::verbs::test
