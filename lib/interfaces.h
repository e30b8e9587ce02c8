// SPDX-License-Identifier: Apache-2.0
// Which addresses of this host ranks may use: what the system has, filtered by RONDEL_NET. The filter is
// pure; only system_interfaces() looks at the machine. Opens no sockets. Any thread.
#pragma once

#include <array>
#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "lib/memory.h"
#include "lib/status.h"

namespace rondel {

/// An IPv4 (4 bytes) or IPv6 (16 bytes) address, most significant byte first.
struct IpAddress {
  std::array<std::uint8_t, 16> bytes{};
  std::uint8_t length = 4;
  bool operator==(const IpAddress&) const = default;
  bool is_v6() const { return length == 16; }
  bool is_loopback() const;
  bool is_link_local() const;
  std::string text() const;
};

Result<IpAddress> parse_ip(std::string_view text);

struct Interface {
  std::string name;
  IpAddress address;
  std::uint8_t prefix_bits = 0;
};

/// The usable addresses of this network namespace: interfaces that are up, without link-local ones.
Result<std::vector<Interface>> system_interfaces();

/// RONDEL_NET: comma separated; each term an interface name ("eth0", exactly that name), a name's beginning
/// ("eth*") or a CIDR ("10.0.0.0/8"); a term with ^ in front excludes. Only exclusions: everything else.
/// Empty: everything.
class NetFilter {
 public:
  static Result<NetFilter> parse(std::string_view text);
  bool admits(const Interface& interface) const;
  /// The admitted ones; unavailable lists what there is when nothing is admitted. Loopback is left out unless
  /// the filter names it.
  Result<std::vector<Interface>> choose(std::span<const Interface> interfaces) const;

 private:
  struct Term {
    bool exclude = false;
    bool is_prefix = false;
    std::string name;  // empty: a CIDR
    IpAddress network;
    std::uint8_t bits = 0;
  };
  static Result<Term> parse_term(std::string_view text);
  static bool matches(const Term& term, const Interface& interface);
  std::string text_;
  std::vector<Term> terms_;
};

/// True when both lie in the same network of `bits` leading bits.
bool same_network(const IpAddress& a, const IpAddress& b, std::uint8_t bits);

}  // namespace rondel
