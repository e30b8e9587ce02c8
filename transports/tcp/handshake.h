// SPDX-License-Identifier: Apache-2.0
// How a TCP connection between two endpoints begins: the mutual challenge-response of lib/auth over an Asio
// socket, within a time limit, carrying which endpoint wants which. Listener thread only.
#pragma once

#include <boost/asio/ip/tcp.hpp>
#include <boost/asio/steady_timer.hpp>
#include <chrono>
#include <cstdint>
#include <functional>
#include <memory>
#include <span>

#include "lib/auth.h"
#include "lib/memory.h"
#include "lib/status.h"

namespace rondel::tcp {

/// One endpoint of one communicator, within a job.
struct EndpointKey {
  std::uint64_t context = 0;
  std::uint16_t channel = 0;
  Rank rank = 0;
  auto operator<=>(const EndpointKey&) const = default;  // NOLINT(modernize-use-nullptr): wrong about C++20
};

/// The authenticated payload of a dialler: from whom, to whom.
struct LinkHello {
  EndpointKey to;
  Rank from = kNoRank;
  Rank size = 0;
};
Bytes encode(const LinkHello& hello);
Result<LinkHello> decode_link_hello(std::span<const std::byte> bytes);

/// One connection in the middle of its handshake. Keeps itself alive until it calls done, exactly once, with
/// the socket or with why there is none.
class Greeting : public std::enable_shared_from_this<Greeting> {
 public:
  using Socket = boost::asio::ip::tcp::socket;
  using Done = std::function<void(Result<Socket>)>;

  static std::shared_ptr<Greeting> start(Socket socket, Handshake handshake, std::chrono::milliseconds limit,
                                         Done done);
  /// Ends it with timed_out.
  void give_up(const char* why);

 private:
  Greeting(Socket socket, Handshake handshake, Done done);
  void send(Bytes bytes, bool then_end);
  void receive();
  void take(std::size_t bytes);
  void end(Status status);

  Socket socket_;
  boost::asio::steady_timer limit_;
  Handshake handshake_;
  Done done_;
  Bytes incoming_;
  Bytes outgoing_;
  Status failure_;
};

}  // namespace rondel::tcp
