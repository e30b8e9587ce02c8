// SPDX-License-Identifier: Apache-2.0
// Host: one machine that ranks may run on, as the user named it. HostRoster collects them so that each is
// there once. Values, one thread; they do not know whether a name exists or can be reached, nor whether two
// names mean one machine.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <unordered_map>
#include <vector>

#include "launcher/host_range.h"
#include "lib/status.h"
#include "lib/types.h"

namespace rondel {

inline constexpr Rank kMostSlots = 65'536;  ///< of one host

struct Host {
  std::string user;            ///< empty: whoever ssh takes
  std::string name;            ///< letters, digits, '.', '_', '-'; or an IPv6 address, without brackets
  std::uint16_t ssh_port = 0;  ///< 0: the one that ssh takes
  Rank slots = 1;              ///< ranks that it takes without oversubscription

  bool operator==(const Host&) const = default;
};

/// "user@[fe80::1%eth0]": user and name as -H takes them, without the port.
std::string name_of(const Host& host);

/// `text` with A-Z as a-z: host names differ in more than that.
std::string lower_case(std::string text);

/// Hosts in the order in which they were first named. Name and port tell them apart: two ports of one address
/// are often two containers.
class HostRoster {
 public:
  /// How many hosts one more range may make.
  std::size_t range_room() const { return range_room_; }
  /// Adds what one word of the user named. A host that is there already gets the slots on top.
  /// invalid_argument: it is there with another user, or its slots become too many.
  Status add(std::span<const Host> named);
  std::vector<Host> take() { return std::move(hosts_); }

 private:
  Status add_one(const Host& host);

  std::vector<Host> hosts_;
  std::unordered_map<std::string, std::size_t> places_;  // "name port" -> index in hosts_
  std::size_t range_room_ = kMostRangeHosts;
};

}  // namespace rondel
