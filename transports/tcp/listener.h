// SPDX-License-Identifier: Apache-2.0
// Listener: where a process's TCP endpoints are reached, and from where they reach others. One thread does
// all that is slow: accepting, dialling, handshakes; sockets that pass go to the endpoint's inbox. Shared by
// the endpoints of one transport. Public calls: any thread.
#pragma once

#include <chrono>
#include <memory>
#include <string>
#include <vector>

#include "lib/auth.h"
#include "lib/status.h"
#include "transports/reach.h"
#include "transports/tcp/dialer.h"
#include "transports/tcp/handshake.h"
#include "transports/tcp/inbox.h"
#include "transports/tcp/socket_options.h"

namespace rondel::tcp {

struct ListenerOptions {
  std::vector<IpAddress> addresses;  ///< the only addresses listened on
  std::uint16_t first_port = 0;      ///< 0: the kernel chooses
  std::uint16_t last_port = 0;
  std::chrono::milliseconds handshake_limit{5'000};
  SocketPolicy policy;
};

class Listener {
 public:
  static Result<std::shared_ptr<Listener>> start(ListenerOptions options, const Secret& secret);
  ~Listener();
  Listener(const Listener&) = delete;
  Listener& operator=(const Listener&) = delete;

  const std::vector<SocketAddress>& sockets() const;
  /// From the return of this call on, connections for `key` go to `inbox`; others are refused.
  void expect(const EndpointKey& key, Rank size, std::shared_ptr<Inbox> inbox);
  void forget(const EndpointKey& key);
  void dial(DialOrder order);

 private:
  Listener();
  struct Body;
  std::unique_ptr<Body> body_;
};

}  // namespace rondel::tcp
