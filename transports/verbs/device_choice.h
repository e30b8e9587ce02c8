// SPDX-License-Identifier: Apache-2.0
// Which RDMA device, port and address (GID) an endpoint uses. Pure: facts in, a choice or the reasons against
// each port out; nothing is opened here. Any thread.
#pragma once

#include <array>
#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "lib/status.h"

namespace rondel::verbs {

enum class LinkLayer : std::uint8_t { infiniband, ethernet, other };
enum class GidKind : std::uint8_t { infiniband, roce_v1, roce_v2 };
using Gid = std::array<std::uint8_t, 16>;

struct GidFacts {
  std::uint32_t index = 0;
  GidKind kind = GidKind::infiniband;
  Gid gid{};
};

struct PortFacts {
  std::uint8_t number = 1;
  bool active = false;
  std::string state;  ///< in words, for the reasons
  LinkLayer link_layer = LinkLayer::ethernet;
  std::uint16_t lid = 0;
  std::uint32_t mtu_bytes = 0;
  std::uint64_t bytes_per_second = 0;
  std::vector<GidFacts> gids;
};

struct DeviceFacts {
  std::string name;
  bool iwarp = false;
  std::string why_closed;  ///< not empty: it can not be opened
  std::vector<PortFacts> ports;
};

/// What a network's administrator sorts packets by.
struct PathMarks {
  std::uint16_t pkey_index = 0;    ///< RONDEL_VERBS_PKEY_INDEX
  std::uint8_t service_level = 0;  ///< RONDEL_VERBS_SERVICE_LEVEL
  std::uint8_t traffic_class = 0;  ///< RONDEL_VERBS_TRAFFIC_CLASS
};

/// What the user asked for; empty: anything that works.
struct DeviceWish {
  std::string device;                      ///< RONDEL_VERBS_DEVICE: "mlx5_0", or "mlx5_0:2" with the port
  std::optional<std::uint32_t> gid_index;  ///< RONDEL_VERBS_GID_INDEX
  PathMarks marks;
};

struct DeviceChoice {
  std::string device;
  std::uint8_t port = 1;
  std::uint32_t gid_index = 0;
  GidKind gid_kind = GidKind::infiniband;  ///< of whose packets it sends, and the only ones that it hears
  Gid gid{};
  std::uint16_t lid = 0;
  bool global = false;  ///< packets carry a GRH: always on Ethernet, whatever the LID says
  std::uint32_t mtu_bytes = 0;
  std::uint64_t bytes_per_second = 0;
  LinkLayer link_layer = LinkLayer::ethernet;
  PathMarks marks;
};

std::string_view name_of(GidKind kind);
bool is_zero(const Gid& gid);
bool is_link_local(const Gid& gid);
bool is_ipv4(const Gid& gid);  ///< ::ffff:a.b.c.d
std::string text_of(const Gid& gid);

/// The first usable port in the order of speed, then of names; on it the best GID: RoCE v2 before v1,
/// IPv4-mapped first, link-local last, none that is zero. unavailable gives the reason against each port;
/// invalid_argument refuses a wish and lists what there is.
Result<DeviceChoice> choose_device(std::span<const DeviceFacts> devices, const DeviceWish& wish);

/// What both ends of a link can carry.
std::uint32_t common_mtu(std::uint32_t mine_bytes, std::uint32_t theirs_bytes);

}  // namespace rondel::verbs
