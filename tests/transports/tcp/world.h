// SPDX-License-Identifier: Apache-2.0
// For the tests of the TCP backend: transports and endpoints of one job on loopback, and plain sockets of
// strangers. Main thread only.
#pragma once

#include <memory>
#include <string_view>
#include <vector>

#include "lib/unique_fd.h"
#include "transports/reach.h"
#include "transports/tcp/transport.h"

namespace rondel::tcp::test {

struct OneRank {
  std::unique_ptr<Transport> transport;
  std::unique_ptr<Endpoint> endpoint;
};

/// Opens the endpoint of `rank` of `size`; throws when it can not, with the reason.
OneRank open_rank(const Secret& secret, Rank rank, Rank size, const Config& config = {});

/// The first socket in an endpoint's address.
SocketAddress reach_of(const Endpoint& endpoint);

/// A stranger's connection to an endpoint.
UniqueFd call(const SocketAddress& address);

/// Reads until the other side closes; false when it has not by the deadline.
bool closed_by_peer(int socket, Deadline deadline);

/// Connects two endpoints to one another from two threads; the statuses of both.
std::vector<Status> connect_pair(Endpoint& zero, Endpoint& one, Deadline deadline);

/// Sends `bytes` bytes from one connected endpoint to the other and back, and compares; empty text when
/// right.
std::string exchange(Endpoint& zero, Endpoint& one, std::size_t bytes);

}  // namespace rondel::tcp::test
