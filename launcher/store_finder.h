// SPDX-License-Identifier: Apache-2.0
// Where the ranks of other hosts find the job's server: the launcher names every address that it has, the
// agent of a host takes the first one at which the server proves that it is this job's. Interfaces need no
// equal names, and an address that several hosts have (docker0's) leads nobody astray. Blocks until its
// deadline at most; called once at start.
#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "lib/auth.h"
#include "lib/deadline.h"
#include "lib/status.h"

namespace rondel {

/// "10.0.0.1:4321" for each address of this host that RONDEL_NET (`net`) admits, IPv4 first. unavailable when
/// there is none.
Result<std::vector<std::string>> advertised_stores(const std::string& net, std::uint16_t port);

/// The ends of the ssh connection that this process came through, as sshd saw them.
struct SshRoute {
  std::string client;  ///< the launcher's address, when nothing stood between
  std::string server;  ///< this host's
};
/// From the value of SSH_CONNECTION: "client port server port".
std::optional<SshRoute> parse_ssh_connection(const char* value);

/// Looks for one of several stores that this host can reach: over and over, longer each time, with the one at
/// `likely` before the others.
class StoreSearch {
 public:
  /// For one address. Who searches does nothing else meanwhile.
  static constexpr std::chrono::milliseconds kLongestPatience{1'500};

  StoreSearch(std::vector<std::string> stores, const std::string& likely, const Secret& secret,
              Deadline deadline);
  /// Tries one address. nullopt: not that one. unavailable, once the deadline has passed, names all
  /// addresses.
  std::optional<Result<std::string>> try_next();

 private:
  std::vector<std::string> stores_;
  Secret secret_;
  Deadline deadline_;
  Deadline::Clock::time_point since_ = Deadline::Clock::now();
  std::chrono::milliseconds patience_;
  std::size_t next_ = 0;
  std::vector<std::string> failures_;  // by store, of its last try; before that its address
};

/// An address at which other hosts most likely reach this one: where ssh came in, or the first interface's.
std::string own_address(const std::optional<SshRoute>& route);

}  // namespace rondel
