// SPDX-License-Identifier: Apache-2.0
#include "lib/readiness.h"

#include <sys/epoll.h>
#include <sys/eventfd.h>

#include <algorithm>
#include <array>
#include <cerrno>

namespace rondel {

Result<Readiness> Readiness::create() {
  UniqueFd epoll(::epoll_create1(EPOLL_CLOEXEC));
  if (!epoll) return system_failure(Code::out_of_resources, "can not create an epoll descriptor", errno);
  UniqueFd bell(::eventfd(0, EFD_NONBLOCK | EFD_CLOEXEC));
  if (!bell) return system_failure(Code::out_of_resources, "can not create an eventfd", errno);
  Readiness readiness(std::move(epoll), std::move(bell));
  std::uint32_t watched = 0;
  readiness.watch(readiness.bell_.get(), EPOLLIN, watched);
  return readiness;
}

void Readiness::watch(int socket, std::uint32_t events, std::uint32_t& watched) {
  if (events == watched) return;
  epoll_event event{};
  event.events = events;
  event.data.fd = socket;
  const int operation = watched == 0 ? EPOLL_CTL_ADD : events == 0 ? EPOLL_CTL_DEL : EPOLL_CTL_MOD;
  ::epoll_ctl(epoll_.get(), operation, socket, &event);
  watched = events;
}

void Readiness::ring(bool on) {
  if (on == rung_) return;
  rung_ = on;
  eventfd_t drained = 0;
  on ? ::eventfd_write(bell_.get(), 1) : ::eventfd_read(bell_.get(), &drained);
}

void Readiness::wait(std::chrono::nanoseconds at_most) {
  const auto ms = std::chrono::ceil<std::chrono::milliseconds>(at_most).count();
  std::array<epoll_event, 8> ready;
  ::epoll_wait(epoll_.get(), ready.data(), static_cast<int>(ready.size()),
               static_cast<int>(std::clamp<long long>(ms, 0, 3'600'000)));
}

}  // namespace rondel
