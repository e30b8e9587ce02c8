// SPDX-License-Identifier: Apache-2.0
// Two hosts' looks at their RDMA devices, from the probe to the choice that all ranks make of them, and to
// bytes that pass: verbs is used where both can, and where one can not it is told which, and why.
#include "transports/select.h"

#include <sys/resource.h>

#include <catch2/catch.hpp>
#include <cerrno>
#include <functional>
#include <vector>

#include "tests/transports/verbs/world.h"

namespace rondel::verbs::test {
namespace {

const std::vector<std::string> kHosts{"a", "b"};

/// What a rank of a host with `devices` says to the others of verbs, and of TCP at 25 Gbit/s, as they read
/// it.
Offers offers_of(std::vector<FakeDevice> devices, const std::function<void(FakeVerbs&)>& trouble = {}) {
  FakeVerbs fabric(std::move(devices));
  if (trouble) trouble(fabric);
  const auto transport = make_transport_on(FakeVerbs::table(), {}, *Secret::generate());
  const Offers said{
      {std::string(transport->name()), transport->probe()},
      {"tcp", {.usable = true, .why_not = {}, .domain = "tcp", .bytes_per_second = 3'125'000'000}}};
  return *decode_offers(encode(said));
}

/// Rank 0's host has a device that works; what is chosen with rank 1's, and the refusal where verbs is asked
/// for.
struct Outcome {
  std::string transport;
  std::string refusal;
};
Outcome choose_with(const Offers& other) {
  const std::vector<Offers> by_rank{offers_of({FakeDevice{}}), other};
  const auto chosen = select_transport(by_rank, kHosts, "");
  REQUIRE(chosen.ok());
  return {chosen->transport, select_transport(by_rank, kHosts, "verbs").status().text()};
}

TEST_CASE("two hosts that can use verbs choose it, connect, and move bytes") {
  CHECK(choose_with(offers_of({FakeDevice{}})).transport == "verbs");
  CHECK(choose_with(offers_of({FakeDevice{}})).refusal == "ok");
  const FakeVerbs fabric(
      {FakeDevice{.name = "at_a"}, FakeDevice{.name = "at_b", .gids = {{.last_byte = 2}}}});
  std::array<Config, 2> configs;
  configs[0].verbs_device = "at_a";
  configs[1].verbs_device = "at_b";
  PairOfRanks ranks(configs);
  CHECK(ranks.send(3'000'000) == "");
}

TEST_CASE("F04 and F10: a host that can not use verbs is named with the reason, and the job goes over TCP") {
  rlimit limit{};
  REQUIRE(::getrlimit(RLIMIT_MEMLOCK, &limit) == 0);
  const rlimit little{64 * 1024, limit.rlim_max};
  REQUIRE(::setrlimit(RLIMIT_MEMLOCK, &little) == 0);
  struct Case {
    std::vector<FakeDevice> devices;
    std::string why;
    std::string remedy;
    std::function<void(FakeVerbs&)> trouble = {};
  };
  for (const Case& c :
       {Case{{}, "this host has no RDMA device", "load its driver"},
        Case{{FakeDevice{}},
             "the limit (ulimit -l) is 64 KiB, this needs ",
             "raise it: ulimit -l unlimited",
             [](FakeVerbs& fabric) { fabric.fail_call(FakeCall::reg_mr, ENOMEM); }},
        Case{{FakeDevice{.name = "roce0", .state = IBV_PORT_DOWN}},
             "roce0:1: its state is down, not active",
             "bring one up"},
        Case{{FakeDevice{.name = "roce0", .gids = {}}}, "roce0:1: it has no address (GID)", "bring one up"},
        Case{{FakeDevice{.name = "iw0", .transport = IBV_TRANSPORT_IWARP}}, "iw0: it is iWARP", ""}}) {
    const Outcome outcome = choose_with(offers_of(c.devices, c.trouble));
    INFO(outcome.refusal);
    CHECK(outcome.transport == "tcp");
    CHECK(outcome.refusal.find("verbs: rank 1 on b: ") != std::string::npos);
    CHECK(outcome.refusal.find(c.why) != std::string::npos);
    CHECK(outcome.refusal.find(c.remedy) != std::string::npos);
  }
  REQUIRE(::setrlimit(RLIMIT_MEMLOCK, &limit) == 0);
}

// Packets of RoCE v1 are frames of Ethernet and those of v2 are UDP: a device that sends one kind hears no
// other.
TEST_CASE("hosts whose devices speak different networks do not choose verbs, and are told of both") {
  const Offers infiniband = offers_of(
      {FakeDevice{.link_layer = IBV_LINK_LAYER_INFINIBAND, .lid = 3, .gids = {{IBV_GID_TYPE_IB, 1}}}});
  const Offers roce_v1 = offers_of({FakeDevice{.gids = {{IBV_GID_TYPE_ROCE_V1, 1}}}});
  for (const Offers& other : {infiniband, roce_v1}) {
    const Outcome outcome = choose_with(other);
    INFO(outcome.refusal);
    CHECK(outcome.transport == "tcp");
    CHECK(outcome.refusal.find("which rank 0 on a and rank 1 on b are not") != std::string::npos);
    CHECK(outcome.refusal.find("RoCE v1 or RoCE v2") != std::string::npos);
  }
  const std::vector<Offers> both_v1{roce_v1, roce_v1};
  CHECK(select_transport(both_v1, kHosts, "")->transport == "verbs");
}

}  // namespace
}  // namespace rondel::verbs::test
