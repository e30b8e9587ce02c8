// SPDX-License-Identifier: Apache-2.0
#include "bindings/c/doorbell.h"

#include <sys/epoll.h>
#include <sys/eventfd.h>

#include <cerrno>
#include <cstdint>

namespace rondel::c {
namespace {

bool watch(int epoll, int descriptor) {
  epoll_event event{};
  event.events = EPOLLIN;
  return ::epoll_ctl(epoll, EPOLL_CTL_ADD, descriptor, &event) == 0;
}

}  // namespace

Result<std::unique_ptr<Doorbell>> Doorbell::create() {
  std::unique_ptr<Doorbell> doorbell(new Doorbell);
  doorbell->bell_ = UniqueFd(::eventfd(0, EFD_NONBLOCK | EFD_CLOEXEC));
  doorbell->both_ = UniqueFd(::epoll_create1(EPOLL_CLOEXEC));
  if (!doorbell->bell_ || !doorbell->both_ || !watch(doorbell->both_.get(), doorbell->bell_.get()))
    return system_failure(Code::out_of_resources, "making a descriptor to wait on", errno);
  return doorbell;
}

Status Doorbell::arm(int fabric, bool ring) {
  if (fabric >= 0 && fabric != watched_) {
    if (!watch(both_.get(), fabric))
      return system_failure(Code::io_error, "watching the fabric's descriptor", errno);
    watched_ = fabric;
  }
  std::uint64_t count = 1;
  if (ring && !rung_ && ::write(bell_.get(), &count, sizeof count) != sizeof count)
    return system_failure(Code::io_error, "ringing a descriptor", errno);
  if (!ring && rung_ && ::read(bell_.get(), &count, sizeof count) != sizeof count)
    return system_failure(Code::io_error, "silencing a descriptor", errno);
  rung_ = ring;
  return {};
}

}  // namespace rondel::c
