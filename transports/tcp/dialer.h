// SPDX-License-Identifier: Apache-2.0
// Dialer: connects one endpoint to one peer. Tries the peer's addresses in order, again and again with
// growing pauses, until one answers as the right rank or the deadline passes; the outcome goes to the
// endpoint's inbox. Keeps itself alive; stops when the inbox is gone. Listener thread only.
#pragma once

#include <boost/asio/io_context.hpp>
#include <boost/asio/steady_timer.hpp>
#include <chrono>
#include <memory>
#include <string>
#include <vector>

#include "lib/auth.h"
#include "lib/deadline.h"
#include "transports/reach.h"
#include "transports/tcp/handshake.h"
#include "transports/tcp/inbox.h"
#include "transports/tcp/socket_options.h"

namespace rondel::tcp {

struct DialOrder {
  LinkHello hello;
  std::vector<SocketAddress> candidates;
  std::weak_ptr<Inbox> inbox;
};

class Dialer : public std::enable_shared_from_this<Dialer> {
 public:
  static void start(boost::asio::io_context& io, DialOrder order, const Secret& secret,
                    const SocketPolicy& policy, std::chrono::milliseconds handshake_limit);

 private:
  Dialer(boost::asio::io_context& io, DialOrder order, const Secret& secret, const SocketPolicy& policy,
         std::chrono::milliseconds handshake_limit);
  void try_next();
  void connected(boost::system::error_code error);
  void greeted(Result<Greeting::Socket> outcome);
  void failed(Code code, const std::string& why);
  void pause();
  void finish(Arrival arrival);
  void tell(Arrival arrival);

  boost::asio::io_context& io_;
  boost::asio::steady_timer timer_;
  DialOrder order_;
  Secret secret_;
  SocketPolicy policy_;
  std::chrono::milliseconds handshake_limit_;
  std::unique_ptr<Greeting::Socket> socket_;
  std::size_t next_ = 0;
  std::size_t refusals_ = 0;  // in this round
  Code last_refusal_ = Code::refused;
  std::chrono::milliseconds pause_{10};
  std::string last_failure_;
  std::string told_failure_;
};

}  // namespace rondel::tcp
