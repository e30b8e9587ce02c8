// SPDX-License-Identifier: Apache-2.0
#include "transports/blame.h"

#include <fmt/format.h>

#include <utility>

namespace rondel {
namespace {

std::string host_of(const EndpointOptions& options, Rank peer) {
  const auto index = static_cast<std::size_t>(peer);
  return peer >= 0 && index < options.hosts.size() ? options.hosts[index] : std::string();
}

}  // namespace

std::string name_of(const EndpointOptions& options, Rank peer) {
  const auto index = static_cast<std::size_t>(peer);
  if (index < options.hosts.size()) return fmt::format("rank {} (host {})", peer, options.hosts[index]);
  return fmt::format("rank {}", peer);
}

Failure failure_about(const EndpointOptions& options, Rank peer, std::string cause, std::string hint) {
  Failure failure;
  failure.rank = options.rank;
  failure.peer = peer;
  failure.host = host_of(options, peer);
  failure.cause = std::move(cause);
  failure.hint = std::move(hint);
  return failure;
}

}  // namespace rondel
