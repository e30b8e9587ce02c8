// SPDX-License-Identifier: Apache-2.0
// Reach: how peers reach an endpoint, as it travels through the store, and the order in which its addresses
// are tried. Pure. Any thread.
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "lib/interfaces.h"
#include "lib/memory.h"
#include "lib/status.h"

namespace rondel {

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

}  // namespace rondel
