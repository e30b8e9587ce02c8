// SPDX-License-Identifier: Apache-2.0
#include "transports/verbs/device_choice.h"

#include <fmt/format.h>

#include <algorithm>
#include <charconv>
#include <tuple>

#include "lib/interfaces.h"

namespace rondel::verbs {
namespace {

std::string joined(const std::vector<std::string>& items, std::string_view between) {
  std::string text;
  for (const std::string& item : items) {
    if (!text.empty()) text += between;
    text += item;
  }
  return text;
}

bool fits(GidKind kind, LinkLayer layer) {
  return (kind == GidKind::infiniband) == (layer == LinkLayer::infiniband);
}

// Smaller is better.
auto order_of(const GidFacts& gid) {
  const int address = is_link_local(gid.gid) ? 2 : is_ipv4(gid.gid) ? 0 : 1;
  return std::tuple(address == 2, gid.kind != GidKind::roce_v2, address, gid.index);
}

std::vector<GidFacts> usable_gids(const PortFacts& port) {
  std::vector<GidFacts> usable;
  for (const GidFacts& gid : port.gids)
    if (!is_zero(gid.gid) && fits(gid.kind, port.link_layer)) usable.push_back(gid);
  // Between InfiniBand's the first is the port's own.
  if (port.link_layer == LinkLayer::ethernet)
    std::sort(usable.begin(), usable.end(),
              [](const GidFacts& a, const GidFacts& b) { return order_of(a) < order_of(b); });
  return usable;
}

std::string list_of(const std::vector<GidFacts>& gids) {
  std::vector<std::string> items;
  items.reserve(gids.size());
  for (const GidFacts& gid : gids)
    items.push_back(fmt::format("{} ({} {})", gid.index, name_of(gid.kind), text_of(gid.gid)));
  return items.empty() ? "none" : joined(items, ", ");
}

std::string port_name(const DeviceFacts& device, const PortFacts& port) {
  return fmt::format("{}:{}", device.name, port.number);
}

/// Why this port can not be used; empty when it can.
std::string reason_against(const PortFacts& port) {
  if (port.link_layer == LinkLayer::other) return "it is neither InfiniBand nor Ethernet";
  if (!port.active) return fmt::format("its state is {}, not active", port.state);
  if (port.mtu_bytes < 256) return fmt::format("its MTU is {}", port.mtu_bytes);
  if (usable_gids(port).empty()) return "it has no address (GID)";
  return {};
}

struct Wanted {
  std::string_view device;
  std::optional<std::uint8_t> port;
};

Result<Wanted> parse_wanted(std::string_view text) {
  const auto colon = text.find(':');
  Wanted wanted{.device = text.substr(0, colon), .port = {}};
  if (colon == std::string_view::npos) return wanted;
  std::uint8_t port = 0;
  const std::string_view digits = text.substr(colon + 1);
  const auto [end, error] = std::from_chars(digits.data(), digits.data() + digits.size(), port);
  if (error != std::errc() || end != digits.data() + digits.size() || port == 0)
    return Status(Code::invalid_argument, fmt::format("RONDEL_VERBS_DEVICE: can not read '{}'", text),
                  "write a device, or device:port such as mlx5_0:1");
  wanted.port = port;
  return wanted;
}

Result<DeviceChoice> choose_gid(const DeviceFacts& device, const PortFacts& port, const DeviceWish& wish) {
  const auto gids = usable_gids(port);
  auto chosen = gids.begin();
  if (wish.gid_index) {
    chosen = std::find_if(gids.begin(), gids.end(),
                          [&wish](const GidFacts& gid) { return gid.index == *wish.gid_index; });
    if (chosen == gids.end())
      return Status(Code::invalid_argument,
                    fmt::format("RONDEL_VERBS_GID_INDEX={}: {} has no such address; it has: {}",
                                *wish.gid_index, port_name(device, port), list_of(gids)),
                    "choose one of them, or unset RONDEL_VERBS_GID_INDEX");
  }
  return DeviceChoice{.device = device.name,
                      .port = port.number,
                      .gid_index = chosen->index,
                      .gid_kind = chosen->kind,
                      .gid = chosen->gid,
                      .lid = port.lid,
                      .global = port.link_layer == LinkLayer::ethernet || wish.gid_index.has_value() ||
                                wish.marks.traffic_class != 0,
                      .mtu_bytes = port.mtu_bytes,
                      .bytes_per_second = port.bytes_per_second,
                      .link_layer = port.link_layer,
                      .marks = wish.marks};
}

struct Candidate {
  const DeviceFacts* device;
  const PortFacts* port;
};

Status refuse_wish(std::span<const DeviceFacts> devices, const DeviceWish& wish) {
  std::vector<std::string> there;
  for (const DeviceFacts& device : devices)
    for (const PortFacts& port : device.ports) there.push_back(port_name(device, port));
  return Status(Code::invalid_argument,
                fmt::format("RONDEL_VERBS_DEVICE={}: this host has no such device; it has: {}", wish.device,
                            joined(there, ", ")),
                "choose one of them, or unset RONDEL_VERBS_DEVICE");
}

}  // namespace

std::string_view name_of(GidKind kind) {
  switch (kind) {
    case GidKind::infiniband:
      return "InfiniBand";
    case GidKind::roce_v1:
      return "RoCE v1";
    case GidKind::roce_v2:
      return "RoCE v2";
  }
  return "unknown";
}

bool is_zero(const Gid& gid) {
  return std::all_of(gid.begin(), gid.end(), [](std::uint8_t byte) { return byte == 0; });
}

bool is_link_local(const Gid& gid) { return gid[0] == 0xfe && (gid[1] & 0xc0) == 0x80; }

bool is_ipv4(const Gid& gid) {
  return std::all_of(gid.begin(), gid.begin() + 10, [](std::uint8_t byte) { return byte == 0; }) &&
         gid[10] == 0xff && gid[11] == 0xff;
}

std::string text_of(const Gid& gid) {
  IpAddress address{.length = 16};
  const auto first = is_ipv4(gid) ? gid.begin() + 12 : gid.begin();
  if (is_ipv4(gid)) address.length = 4;
  std::copy(first, gid.end(), address.bytes.begin());
  return address.text();
}

std::uint32_t common_mtu(std::uint32_t mine_bytes, std::uint32_t theirs_bytes) {
  return std::min(mine_bytes, theirs_bytes);
}

Result<DeviceChoice> choose_device(std::span<const DeviceFacts> devices, const DeviceWish& wish) {
  if (devices.empty())
    return Status(Code::unavailable, "this host has no RDMA device",
                  "if it should have one, load its driver (ibv_devices lists what there is)");
  auto wanted = parse_wanted(wish.device);
  RONDEL_TRY(wanted);
  std::vector<Candidate> usable;
  std::vector<std::string> reasons;
  bool known = wanted->device.empty();
  for (const DeviceFacts& device : devices) {
    if (!wanted->device.empty() && device.name != wanted->device) continue;
    const std::string whole =
        device.iwarp ? "it is iWARP, which has no writes with immediate data" : device.why_closed;
    if (!whole.empty()) reasons.push_back(fmt::format("{}: {}", device.name, whole));
    known |= !whole.empty();
    for (const PortFacts& port : device.ports) {
      if (!whole.empty() || (wanted->port && port.number != *wanted->port)) continue;
      known = true;
      const std::string reason = reason_against(port);
      if (reason.empty())
        usable.push_back({&device, &port});
      else
        reasons.push_back(fmt::format("{}: {}", port_name(device, port), reason));
    }
  }
  if (!known) return refuse_wish(devices, wish);
  if (usable.empty())
    return Status(Code::unavailable, fmt::format("no RDMA port can be used: {}", joined(reasons, "; ")),
                  "bring one up (ibv_devinfo shows their state)");
  std::stable_sort(usable.begin(), usable.end(), [](const Candidate& a, const Candidate& b) {
    return std::tuple(b.port->bytes_per_second, a.device->name, a.port->number) <
           std::tuple(a.port->bytes_per_second, b.device->name, b.port->number);
  });
  return choose_gid(*usable.front().device, *usable.front().port, wish);
}

}  // namespace rondel::verbs
