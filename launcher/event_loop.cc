// SPDX-License-Identifier: Apache-2.0
#include "launcher/event_loop.h"

#include <sys/epoll.h>

#include <algorithm>
#include <array>
#include <cerrno>

namespace rondel {

Result<EventLoop> EventLoop::create() {
  UniqueFd poll(::epoll_create1(EPOLL_CLOEXEC));
  if (!poll) return system_failure(Code::out_of_resources, "epoll_create1", errno);
  return EventLoop(std::move(poll));
}

Status EventLoop::watch(int fd, std::uint32_t events, Handler handler) {
  epoll_event event{};
  event.events = events;
  event.data.fd = fd;
  if (::epoll_ctl(poll_.get(), EPOLL_CTL_ADD, fd, &event) != 0)
    return system_failure(Code::io_error, "epoll_ctl", errno);
  handlers_[fd] = std::move(handler);
  return {};
}

void EventLoop::forget(int fd) {
  if (handlers_.erase(fd) != 0) ::epoll_ctl(poll_.get(), EPOLL_CTL_DEL, fd, nullptr);
}

Status EventLoop::wait(std::chrono::nanoseconds at_most) {
  constexpr std::chrono::milliseconds kMost{3'600'000};
  const auto ms =
      std::clamp(std::chrono::ceil<std::chrono::milliseconds>(at_most), std::chrono::milliseconds(0), kMost);
  std::array<epoll_event, 64> events{};
  const int count =
      ::epoll_wait(poll_.get(), events.data(), static_cast<int>(events.size()), static_cast<int>(ms.count()));
  if (count < 0 && errno != EINTR) return system_failure(Code::io_error, "epoll_wait", errno);
  for (int i = 0; i < count; ++i) {
    const auto found = handlers_.find(events[static_cast<std::size_t>(i)].data.fd);
    if (found == handlers_.end()) continue;  // an earlier handler of this round has forgotten it
    const Handler handler = found->second;   // a copy: it may forget itself while it runs
    handler();
  }
  return {};
}

}  // namespace rondel
