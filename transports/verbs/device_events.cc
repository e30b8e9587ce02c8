// SPDX-License-Identifier: Apache-2.0
#include "transports/verbs/device_events.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <sys/eventfd.h>

#include <cerrno>
#include <utility>

#include "lib/log.h"

namespace rondel::verbs {

DeviceEvents::DeviceEvents(const VerbsLibrary& verbs, ibv_context* context, std::string device,
                           std::uint8_t port)
    : verbs_(verbs), context_(context), device_(std::move(device)), port_(port) {}

Status DeviceEvents::prepare() {
  const int flags = ::fcntl(descriptor(), F_GETFL);
  if (flags < 0 || ::fcntl(descriptor(), F_SETFL, flags | O_NONBLOCK) != 0)
    return system_failure(Code::io_error, fmt::format("setting up the events of {}", device_), errno);
  end_bell_ = UniqueFd(::eventfd(0, EFD_NONBLOCK | EFD_CLOEXEC));
  if (!end_bell_)
    return system_failure(Code::out_of_resources, fmt::format("setting up the events of {}", device_), errno);
  return {};
}

void DeviceEvents::take() {
  ibv_async_event event{};
  while (verbs_.get_async_event(context_, &event) == 0) {
    hear(event);
    verbs_.ack_async_event(&event);  // or the object that it is about could not be destroyed
  }
}

void DeviceEvents::hear(const ibv_async_event& event) {
  switch (event.event_type) {
    case IBV_EVENT_DEVICE_FATAL:
      return ended("the device has failed or was removed");
    case IBV_EVENT_CQ_ERR:
      return ended("a completion queue has failed");
    case IBV_EVENT_PORT_ERR:
    case IBV_EVENT_PORT_ACTIVE:
      if (event.element.port_num != port_) return;
      port_down_.store(event.event_type == IBV_EVENT_PORT_ERR, std::memory_order_relaxed);
      log(LogLevel::warn, "verbs: port {}:{} is {}", device_, port_,
          event.event_type == IBV_EVENT_PORT_ERR ? "down" : "active again");
      return;
    default:  // about one queue pair: its completions tell as well; or no trouble
      log(LogLevel::debug, "verbs: {} reports event {}", device_, static_cast<int>(event.event_type));
      return;
  }
}

void DeviceEvents::ended(const char* what) {
  end_.store(what, std::memory_order_relaxed);
  ::eventfd_write(end_bell_.get(), 1);
}

Status DeviceEvents::end() const {
  const char* const what = end_.load(std::memory_order_relaxed);
  if (what == nullptr) return {};
  return Status(Code::io_error, fmt::format("{}: {}", device_, what), "see the kernel's log for the device");
}

}  // namespace rondel::verbs
