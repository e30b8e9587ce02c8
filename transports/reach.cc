// SPDX-License-Identifier: Apache-2.0
#include "transports/reach.h"

#include <fmt/format.h>

#include <algorithm>
#include <cstring>
#include <iterator>

#include "lib/wire.h"

namespace rondel {
namespace {

constexpr std::size_t kMaxSockets = 64;
constexpr std::size_t kMaxName = 256;

}  // namespace

std::string SocketAddress::text() const {
  return fmt::format(fmt::runtime(ip.is_v6() ? "[{}]:{}" : "{}:{}"), ip.text(), port);
}

Bytes encode(const Reach& reach) {
  wire::Writer writer;
  writer.text(reach.kernel).text(reach.host).number(static_cast<std::uint16_t>(reach.sockets.size()));
  for (const SocketAddress& socket : reach.sockets) {
    writer.number(socket.ip.length);
    writer.raw(std::as_bytes(std::span(socket.ip.bytes).first(socket.ip.length)));
    writer.number(socket.port);
  }
  return writer.take();
}

Result<Reach> decode_reach(std::span<const std::byte> bytes) {
  wire::Reader reader(bytes);
  Reach reach;
  reach.kernel = reader.text(kMaxName);
  reach.host = reader.text(kMaxName);
  const auto count = reader.number<std::uint16_t>();
  for (std::size_t i = 0; i < count && i < kMaxSockets && reader.good(); ++i) {
    SocketAddress socket;
    socket.ip.length = reader.number<std::uint8_t>();
    if (socket.ip.length != 4 && socket.ip.length != 16) break;
    const auto raw = reader.raw(socket.ip.length);
    if (raw.empty()) break;
    std::memcpy(socket.ip.bytes.data(), raw.data(), raw.size());
    socket.port = reader.number<std::uint16_t>();
    reach.sockets.push_back(socket);
  }
  if (!reader.finished())
    return Status(Code::refused, "a peer's address can not be read", "use one version of Rondel");
  return reach;
}

std::vector<SocketAddress> candidates(const Reach& peer, const std::string& my_kernel,
                                      std::span<const Interface> mine) {
  const bool same_kernel = peer.kernel == my_kernel;
  const auto rank_of = [&](const SocketAddress& socket) {
    if (socket.ip.is_loopback()) return same_kernel ? 0 : 9;
    if (same_kernel) return 1;
    int best = 2;
    for (const Interface& own : mine) {
      if (own.address == socket.ip) return 9;
      if (same_network(own.address, socket.ip, own.prefix_bits)) best = 1;
    }
    return best;
  };
  std::vector<SocketAddress> ordered;
  std::copy_if(peer.sockets.begin(), peer.sockets.end(), std::back_inserter(ordered),
               [&rank_of](const SocketAddress& socket) { return rank_of(socket) < 9; });
  std::stable_sort(
      ordered.begin(), ordered.end(),
      [&rank_of](const SocketAddress& a, const SocketAddress& b) { return rank_of(a) < rank_of(b); });
  return ordered;
}

}  // namespace rondel
