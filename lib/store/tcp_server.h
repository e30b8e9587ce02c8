// SPDX-License-Identifier: Apache-2.0
// TcpServer: the job's meeting point. One thread serves the key-value store and liveness to every rank of the
// job, on one port, after a mutual handshake under the job secret. Owned by the launcher, or by rank 0 when
// there is none.
#pragma once

#include <chrono>
#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "lib/auth.h"
#include "lib/status.h"
#include "lib/store/socket.h"
#include "lib/types.h"

namespace rondel {

struct TcpServerOptions {
  std::string bind_address = "127.0.0.1";  ///< numeric IPv4 or IPv6; the only address listened on
  std::uint16_t port = 0;                  ///< 0: the kernel chooses
  std::chrono::milliseconds handshake_timeout{5'000};
  std::chrono::milliseconds silence{store::kUsualSilence};  ///< of a client's host, then it is lost
  Rank holder_rank = kNoRank;  ///< the rank in whose process the server lives; none in a launcher
  std::string holder_host;     ///< its host; both for the error text when the server is lost
};

class TcpServer {
 public:
  /// unavailable names address, port and, where readable, who holds the port.
  static Result<std::unique_ptr<TcpServer>> start(const TcpServerOptions& options, const Secret& secret);
  ~TcpServer();  // closes every connection and joins the thread

  std::uint16_t port() const;
  /// "127.0.0.1:40123" or "[::1]:40123".
  std::string address() const;
  /// Ranks that have ever joined the job's first communicator (its world), ascending; any thread.
  std::vector<Rank> arrived_ranks() const;
  /// The first of them that went without a goodbye; any thread.
  std::optional<Rank> first_fallen_rank() const;

 private:
  TcpServer();
  struct Body;
  std::unique_ptr<Body> body_;
};

}  // namespace rondel
