// SPDX-License-Identifier: Apache-2.0
#include "transports/verbs/device_choice.h"

#include <algorithm>
#include <catch2/catch.hpp>

#include "tests/support/seed.h"

namespace rondel::verbs {
namespace {

Gid ipv4(std::uint8_t last) { return {0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0xff, 0xff, 10, 0, 0, last}; }
Gid global_v6(std::uint8_t last) { return {0x20, 1, 0xd, 0xb8, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, last}; }
Gid link_local(std::uint8_t last) { return {0xfe, 0x80, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, last}; }

PortFacts roce_port(std::vector<GidFacts> gids) {
  return {.number = 1,
          .active = true,
          .state = "active",
          .link_layer = LinkLayer::ethernet,
          .lid = 0,
          .mtu_bytes = 4096,
          .bytes_per_second = 1000,
          .gids = std::move(gids)};
}

std::vector<DeviceFacts> one_device(PortFacts port) {
  return {{.name = "mlx5_0", .iwarp = false, .why_closed = {}, .ports = {std::move(port)}}};
}

bool mentions(const Status& status, const char* words) {
  return status.text().find(words) != std::string::npos;
}

TEST_CASE("RoCE v2 before v1, IPv4 before IPv6, link-local last, zero never") {
  const std::vector<GidFacts> best_last{{0, GidKind::roce_v1, {}},
                                        {1, GidKind::roce_v2, {}},
                                        {2, GidKind::roce_v1, link_local(1)},
                                        {3, GidKind::roce_v2, link_local(1)},
                                        {4, GidKind::roce_v1, global_v6(1)},
                                        {5, GidKind::roce_v1, ipv4(1)},
                                        {6, GidKind::roce_v2, global_v6(1)},
                                        {7, GidKind::roce_v2, ipv4(1)}};
  for (std::size_t there = best_last.size(); there > 2; --there) {
    const auto choice = choose_device(
        one_device(roce_port({best_last.begin(), best_last.begin() + static_cast<std::ptrdiff_t>(there)})),
        {});
    REQUIRE(choice.ok());
    const auto expected = there == 4 ? 3U : there == 3 ? 2U : best_last[there - 1].index;
    CHECK(choice->gid_index == expected);
    CHECK(choice->global);
  }
  const auto none = choose_device(one_device(roce_port({best_last[0], best_last[1]})), {});
  CHECK(none.code() == Code::unavailable);
  CHECK(mentions(none.status(), "mlx5_0:1: it has no address"));
}

TEST_CASE("the order of a port's addresses does not change which is chosen, except by index among equals") {
  rondel::test::Random random(rondel::test::test_seed());
  for (int round = 0; round < 300; ++round) {
    std::vector<GidFacts> gids;
    for (std::uint32_t i = 0; i < 1 + random.below(8); ++i) {
      const auto last = static_cast<std::uint8_t>(1 + random.below(200));
      const std::array<Gid, 4> kinds{ipv4(last), global_v6(last), link_local(last), Gid{}};
      gids.push_back({i, random.happens(0.5) ? GidKind::roce_v2 : GidKind::roce_v1, kinds[random.below(4)]});
    }
    const auto first = choose_device(one_device(roce_port(gids)), {});
    for (std::size_t i = gids.size(); i > 1; --i) std::swap(gids[i - 1], gids[random.below(i)]);
    const auto second = choose_device(one_device(roce_port(gids)), {});
    REQUIRE(first.ok() == second.ok());
    const bool any = std::any_of(gids.begin(), gids.end(), [](const GidFacts& g) { return !is_zero(g.gid); });
    CHECK(first.ok() == any);
    if (!first.ok()) continue;
    CHECK(first->gid_index == second->gid_index);
    const auto chosen = std::find_if(gids.begin(), gids.end(),
                                     [&](const GidFacts& g) { return g.index == first->gid_index; });
    for (const GidFacts& other : gids) {
      if (is_zero(other.gid)) continue;
      CHECK((!is_link_local(chosen->gid) || is_link_local(other.gid)));
      if (is_link_local(chosen->gid) != is_link_local(other.gid)) continue;
      CHECK((chosen->kind == GidKind::roce_v2 || other.kind == GidKind::roce_v1));
      if (chosen->kind == other.kind && !is_link_local(chosen->gid))
        CHECK((is_ipv4(chosen->gid) || !is_ipv4(other.gid)));
    }
  }
}

TEST_CASE("F14: the link layer decides, not the LID") {
  PortFacts port = roce_port({{0, GidKind::roce_v2, ipv4(1)}});
  port.lid = 1;
  const auto roce = choose_device(one_device(port), {});
  REQUIRE(roce.ok());
  CHECK(roce->global);
  CHECK(roce->link_layer == LinkLayer::ethernet);
  PortFacts infiniband = roce_port({{0, GidKind::infiniband, link_local(1)}});
  infiniband.link_layer = LinkLayer::infiniband;
  infiniband.lid = 7;
  const auto ib = choose_device(one_device(infiniband), {});
  REQUIRE(ib.ok());
  CHECK_FALSE(ib->global);
  CHECK(ib->lid == 7);
}

TEST_CASE("the fastest active port is chosen; of equals the first by name") {
  auto devices = one_device(roce_port({{0, GidKind::roce_v2, ipv4(1)}}));
  devices.push_back(devices[0]);
  devices[1].name = "a_slow";
  devices[1].ports[0].bytes_per_second = 500;
  devices.push_back(devices[0]);
  devices[2].name = "mlx4_0";
  CHECK(choose_device(devices, {})->device == "mlx4_0");
  devices[2].ports[0].active = false;
  CHECK(choose_device(devices, {})->device == "mlx5_0");
  devices[0].iwarp = true;
  CHECK(choose_device(devices, {})->device == "a_slow");
}

TEST_CASE("every unusable port is named with its reason") {
  auto devices = one_device(roce_port({{0, GidKind::roce_v2, ipv4(1)}}));
  devices[0].ports[0].active = false;
  devices[0].ports[0].state = "down";
  devices.push_back({.name = "iw0", .iwarp = true, .why_closed = {}, .ports = {}});
  devices.push_back({.name = "shut", .iwarp = false, .why_closed = "it can not be opened", .ports = {}});
  const Status status = choose_device(devices, {}).status();
  INFO(status.text());
  CHECK(status.code() == Code::unavailable);
  CHECK(mentions(status, "mlx5_0:1: its state is down"));
  CHECK(mentions(status, "iw0: it is iWARP"));
  CHECK(mentions(status, "shut: it can not be opened"));
  CHECK(mentions(choose_device({}, {}).status(), "no RDMA device"));
}

TEST_CASE("wishes are followed, and those that can not be met are refused with what there is") {
  auto devices = one_device(roce_port({{0, GidKind::roce_v2, ipv4(1)}, {3, GidKind::roce_v1, ipv4(1)}}));
  devices[0].ports.push_back(devices[0].ports[0]);
  devices[0].ports[1].number = 2;
  CHECK(choose_device(devices, {.device = "mlx5_0:2", .gid_index = {}})->port == 2);
  CHECK(choose_device(devices, {.device = "mlx5_0", .gid_index = 3})->gid_index == 3);
  const Status device = choose_device(devices, {.device = "mlx9_9", .gid_index = {}}).status();
  CHECK(device.code() == Code::invalid_argument);
  CHECK(mentions(device, "RONDEL_VERBS_DEVICE=mlx9_9"));
  CHECK(mentions(device, "mlx5_0:1, mlx5_0:2"));
  CHECK(choose_device(devices, {.device = "mlx5_0:7", .gid_index = {}}).code() == Code::invalid_argument);
  CHECK(choose_device(devices, {.device = "mlx5_0:x", .gid_index = {}}).code() == Code::invalid_argument);
  const Status gid = choose_device(devices, {.device = {}, .gid_index = 5}).status();
  CHECK(gid.code() == Code::invalid_argument);
  CHECK(mentions(gid, "RONDEL_VERBS_GID_INDEX=5"));
  CHECK(mentions(gid, "0 (RoCE v2 10.0.0.1), 3 (RoCE v1 10.0.0.1)"));
}

TEST_CASE("a wish for a port that is down gives the reason, not a list") {
  auto devices = one_device(roce_port({{0, GidKind::roce_v2, ipv4(1)}}));
  devices[0].ports[0].active = false;
  devices[0].ports[0].state = "down";
  const Status status = choose_device(devices, {.device = "mlx5_0", .gid_index = {}}).status();
  CHECK(status.code() == Code::unavailable);
  CHECK(mentions(status, "its state is down"));
}

TEST_CASE("D24: the MTU is the smaller of both") {
  CHECK(common_mtu(1024, 4096) == 1024);
  CHECK(common_mtu(4096, 1024) == 1024);
  CHECK(common_mtu(2048, 2048) == 2048);
}

}  // namespace
}  // namespace rondel::verbs
