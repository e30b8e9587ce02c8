// SPDX-License-Identifier: Apache-2.0
#include "transports/verbs/survey.h"

#include <fmt/format.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <filesystem>
#include <memory>
#include <optional>
#include <system_error>

namespace rondel::verbs {
namespace {

constexpr std::uint64_t kMegabit = 1'000'000;

std::string state_text(ibv_port_state state) {
  switch (state) {
    case IBV_PORT_DOWN:
      return "down";
    case IBV_PORT_INIT:
      return "initialising (no subnet manager has seen it)";
    case IBV_PORT_ARMED:
      return "armed";
    case IBV_PORT_ACTIVE:
      return "active";
    default:
      return fmt::format("unknown ({})", static_cast<int>(state));
  }
}

LinkLayer layer_of(const ibv_port_attr& port) {
  if (port.link_layer == IBV_LINK_LAYER_ETHERNET) return LinkLayer::ethernet;
  // Old InfiniBand drivers say nothing.
  if (port.link_layer == IBV_LINK_LAYER_INFINIBAND || port.link_layer == IBV_LINK_LAYER_UNSPECIFIED)
    return LinkLayer::infiniband;
  return LinkLayer::other;
}

// InfiniBand specification 1.6, section 14.2.5.6 (PortInfo): rate of one lane, number of lanes; data rates.
std::uint64_t speed_of(const ibv_port_attr& port) {
  const auto lane = [&port]() -> std::uint64_t {
    switch (port.active_speed) {
      case 1:
        return 2'000;
      case 2:
        return 4'000;
      case 4:
      case 8:
        return port.active_speed == 4 ? 8'000 : 10'000;
      case 16:
        return 14'000;
      case 32:
        return 25'000;
      case 64:
        return 50'000;
      default:
        return 100'000;
    }
  }();
  const std::uint64_t lanes = port.active_width == 2    ? 4
                              : port.active_width == 4  ? 8
                              : port.active_width == 8  ? 12
                              : port.active_width == 16 ? 2
                                                        : 1;
  return lane * lanes * kMegabit / 8;
}

std::optional<GidKind> kind_of(std::uint32_t type) {
  switch (type) {
    case IBV_GID_TYPE_IB:
      return GidKind::infiniband;
    case IBV_GID_TYPE_ROCE_V1:
      return GidKind::roce_v1;
    case IBV_GID_TYPE_ROCE_V2:
      return GidKind::roce_v2;
    default:
      return std::nullopt;
  }
}

std::vector<GidFacts> gids_of(const VerbsLibrary& verbs, ibv_context* context, std::uint8_t port,
                              int entries) {
  std::vector<GidFacts> gids;
  for (int i = 0; i < entries; ++i) {
    ibv_gid_entry entry{};
    const auto index = static_cast<std::uint32_t>(i);
    if (verbs.query_gid(context, port, index, &entry, 0, sizeof entry) != 0) continue;  // an empty place
    const auto kind = kind_of(entry.gid_type);
    if (!kind) continue;
    GidFacts facts{.index = index, .kind = *kind, .gid = {}};
    std::memcpy(facts.gid.data(), entry.gid.raw, facts.gid.size());
    gids.push_back(facts);
  }
  return gids;
}

PortFacts port_facts(const VerbsLibrary& verbs, ibv_context* context, std::uint8_t number) {
  PortFacts facts{.number = number, .active = false, .state = "not to be had", .gids = {}};
  ibv_port_attr port{};
  if (verbs.query_port(context, number, &port) != 0) return facts;
  facts.active = port.state == IBV_PORT_ACTIVE;
  facts.state = state_text(port.state);
  facts.link_layer = layer_of(port);
  facts.lid = port.lid;
  facts.mtu_bytes = 128U << std::clamp(static_cast<unsigned>(port.active_mtu), 0U, 5U);
  facts.bytes_per_second = speed_of(port);
  facts.gids = gids_of(verbs, context, number, port.gid_tbl_len);
  return facts;
}

DeviceFacts device_facts(const VerbsLibrary& verbs, ibv_device* device) {
  DeviceFacts facts{.name = verbs.get_device_name(device), .why_closed = {}, .ports = {}};
  facts.iwarp = device->transport_type == IBV_TRANSPORT_IWARP;
  const std::unique_ptr<ibv_context, int (*)(ibv_context*)> context(verbs.open_device(device),
                                                                    verbs.close_device);
  if (context == nullptr) {
    facts.why_closed = system_failure(Code::unavailable, "it can not be opened", errno).text();
    return facts;
  }
  ibv_device_attr attributes{};
  if (const int error = verbs.query_device(context.get(), &attributes); error != 0) {
    facts.why_closed = fmt::format("it does not answer: {}", std::system_category().message(error));
    return facts;
  }
  for (std::uint8_t port = 1; port <= attributes.phys_port_cnt; ++port)
    facts.ports.push_back(port_facts(verbs, context.get(), port));
  return facts;
}

}  // namespace

bool kernel_has_devices() {
  std::error_code error;
  const std::filesystem::directory_iterator devices("/sys/class/infiniband", error);
  return !error && devices != std::filesystem::directory_iterator();
}

Result<std::vector<DeviceFacts>> survey(const VerbsLibrary& verbs) {
  int count = 0;
  ibv_device** const list = verbs.get_device_list(&count);
  if (list == nullptr) {
    // A kernel without RDMA answers ENOSYS: the same as no device.
    if (errno == ENOSYS) return std::vector<DeviceFacts>();
    return system_failure(Code::unavailable, "can not list the RDMA devices", errno);
  }
  const std::unique_ptr<ibv_device*, void (*)(ibv_device**)> owned(list, verbs.free_device_list);
  std::vector<DeviceFacts> devices;
  devices.reserve(static_cast<std::size_t>(count));
  for (int i = 0; i < count; ++i) devices.push_back(device_facts(verbs, list[i]));
  return devices;
}

}  // namespace rondel::verbs
