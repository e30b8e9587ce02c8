// SPDX-License-Identifier: Apache-2.0
// Which addresses of this host ranks may use: what the system has, filtered by RONDEL_NET. The filter and the
// order in which a peer's addresses are tried are pure. Any thread.
#pragma once

#include <array>
#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "lib/memory.h"
#include "lib/status.h"

namespace rondel::tcp {

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

struct SocketAddress {
  IpAddress ip;
  std::uint16_t port = 0;
  std::string text() const;  // "10.0.0.1:4000", "[fd00::1]:4000"
};

/// How peers reach an endpoint: where it listens, and on which host.
struct Reach {
  std::string kernel;  ///< HostIdentity::kernel
  std::string host;
  std::vector<SocketAddress> sockets;
};
Bytes encode(const Reach& reach);
Result<Reach> decode_reach(std::span<const std::byte> bytes);

/// The peer's addresses in the order in which to try them: under the same kernel loopback first; between
/// hosts never loopback, never an address that this host has too (cloned bridges), shared networks first.
std::vector<SocketAddress> candidates(const Reach& peer, const std::string& my_kernel,
                                      std::span<const Interface> mine);

}  // namespace rondel::tcp
