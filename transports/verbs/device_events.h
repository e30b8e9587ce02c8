// SPDX-License-Identifier: Apache-2.0
// DeviceEvents: what a device says of itself beside completions: a port that goes down or comes back, its own
// end. Owned by the Device. Any of the threads whose endpoints share the device may look; each event is
// taken by one of them and its meaning kept for all.
#pragma once

#include <atomic>
#include <cstdint>
#include <string>

#include "lib/status.h"
#include "lib/unique_fd.h"
#include "transports/verbs/library.h"

namespace rondel::verbs {

class DeviceEvents {
 public:
  /// `port`: the one that is used. Both must outlive this.
  DeviceEvents(const VerbsLibrary& verbs, ibv_context* context, std::string device, std::uint8_t port);

  /// Makes the descriptor one that can be waited on together with others.
  Status prepare();
  /// Readable when there is something to take.
  int descriptor() const { return context_->async_fd; }
  /// Readable from the device's end on, for all who wait: an event itself is taken by one of them.
  int end_descriptor() const { return end_bell_.get(); }
  /// Takes what there is. Never waits.
  void take();

  /// Not ok once the device, or a queue of it, has failed for good.
  Status end() const;
  /// The port is down now.
  bool port_is_down() const { return port_down_.load(std::memory_order_relaxed); }

 private:
  void hear(const ibv_async_event& event);
  void ended(const char* what);

  const VerbsLibrary& verbs_;
  ibv_context* const context_;
  const std::string device_;
  const std::uint8_t port_;
  UniqueFd end_bell_;
  // Each stands for itself: nothing else is published with it.
  std::atomic<const char*> end_{nullptr};  // what has failed
  std::atomic<bool> port_down_{false};
};

}  // namespace rondel::verbs
