// SPDX-License-Identifier: Apache-2.0
// Readiness: one epoll set over an endpoint's sockets and its inbox, for the time after spinning. Its
// descriptor can be handed to a user's event loop. Level-triggered; interest changes only when it must.
// Driver thread only.
#pragma once

#include <chrono>
#include <cstdint>

#include "lib/status.h"
#include "lib/unique_fd.h"

namespace rondel {

class Readiness {
 public:
  static Result<Readiness> create();

  int descriptor() const { return epoll_.get(); }
  /// Makes `events` (EPOLLIN, EPOLLOUT) the interest in `socket`; `watched` is what it was, and is updated.
  /// Errors and hang-ups are always reported while the interest is not empty.
  void watch(int socket, std::uint32_t events, std::uint32_t& watched);
  /// Waits until something is ready or the time is over.
  void wait(std::chrono::nanoseconds at_most);

 private:
  explicit Readiness(UniqueFd epoll) : epoll_(std::move(epoll)) {}
  UniqueFd epoll_;
};

}  // namespace rondel
