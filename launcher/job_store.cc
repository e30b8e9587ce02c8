// SPDX-License-Identifier: Apache-2.0
#include "launcher/job_store.h"

#include <fmt/format.h>

#include <utility>

#include "launcher/resources.h"
#include "launcher/store_finder.h"
#include "lib/port_range.h"
#include "lib/store/socket.h"

namespace rondel {
namespace {

/// On every address of this host, and on a port of `ports` when that is not empty. The ranks take theirs from
/// its beginning, so this looks from its end.
Result<std::unique_ptr<TcpServer>> start_open_server(const std::string& ports, const Secret& secret) {
  const auto range = parse_port_range(ports);
  if (!range.ok()) return range.status();
  for (std::uint16_t port = range->last;; --port) {
    auto server = TcpServer::start({.bind_address = store::any_address(), .port = port}, secret);
    if (server.ok() || ports.empty()) return server;
    if (port == range->first)
      return Status(server.code(),
                    fmt::format("no port of RONDEL_PORTS={} is free for the job's store: {}", ports,
                                server.status().failure().cause),
                    "make the range larger, or stop who holds its ports (ss -tlnp shows them)");
  }
}

}  // namespace

Result<JobStore> start_job_store(const JobPlan& plan, const Secret& secret) {
  const bool open = plan.leaves_this_host();
  auto server =
      open ? start_open_server(plan.ports, secret) : TcpServer::start({.bind_address = kLoopback}, secret);
  if (!server.ok()) return std::move(server).status();
  JobStore store{.server = *std::move(server), .own_address = {}, .addresses = {}};
  store.own_address = store::join_address(kLoopback, store.server->port());
  if (!open) return store;
  auto addresses = advertised_stores(plan.net, store.server->port());
  if (!addresses.ok()) return std::move(addresses).status();
  store.addresses = *std::move(addresses);
  return store;
}

}  // namespace rondel
