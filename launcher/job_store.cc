// SPDX-License-Identifier: Apache-2.0
#include "launcher/job_store.h"

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
    TcpServerOptions options{.bind_address = "::", .port = port};  // IPv4 as well
    auto server = TcpServer::start(options, secret);
    options.bind_address = "0.0.0.0";  // for a kernel without IPv6
    if (!server.ok()) server = TcpServer::start(options, secret);
    if (server.ok() || port <= range->first) return server;
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
