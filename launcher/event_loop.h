// SPDX-License-Identifier: Apache-2.0
// EventLoop: epoll with one handler per descriptor. Owned by the job; one thread. Descriptors stay the
// callers'; it keeps no timers, the caller passes the time until its next deadline to wait().
#pragma once

#include <chrono>
#include <cstdint>
#include <functional>
#include <unordered_map>

#include "lib/status.h"
#include "lib/unique_fd.h"

namespace rondel {

class EventLoop {
 public:
  using Handler = std::function<void()>;

  static Result<EventLoop> create();

  /// Calls `handler` when `fd` has one of `events` (EPOLLIN, EPOLLOUT), an error or a hang-up.
  Status watch(int fd, std::uint32_t events, Handler handler);
  void forget(int fd);
  /// Waits for events, at most this long, and runs their handlers.
  Status wait(std::chrono::nanoseconds at_most);

 private:
  explicit EventLoop(UniqueFd poll) : poll_(std::move(poll)) {}

  UniqueFd poll_;
  std::unordered_map<int, Handler> handlers_;
};

}  // namespace rondel
