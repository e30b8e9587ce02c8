// SPDX-License-Identifier: Apache-2.0
// Readiness: one epoll set over an endpoint's sockets and its inbox, for the time after spinning, with a bell
// for what no socket shows: something that can be done already. Its descriptor can be handed to a user's
// event loop. Level-triggered; interest changes only when it must. Driver thread only.
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
  /// Makes the descriptor ready, or no longer ready, whatever the sockets say.
  void ring(bool on);
  /// Waits until something is ready or the time is over.
  void wait(std::chrono::nanoseconds at_most);

 private:
  Readiness(UniqueFd epoll, UniqueFd bell) : epoll_(std::move(epoll)), bell_(std::move(bell)) {}
  UniqueFd epoll_;
  UniqueFd bell_;
  bool rung_ = false;
};

}  // namespace rondel
