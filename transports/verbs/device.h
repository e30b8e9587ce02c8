// SPDX-License-Identifier: Apache-2.0
// Device: an open RDMA device with its protection domain, and memory that it may reach. Shared by everything
// that was made on it, and closed with the last of that. Any thread, as libibverbs allows.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>

#include "lib/memory.h"
#include "lib/status.h"
#include "transports/verbs/device_choice.h"
#include "transports/verbs/device_events.h"
#include "transports/verbs/library.h"
#include "transports/work.h"

namespace rondel::verbs {

/// The owner of one of the library's objects.
template <class Object>
using Owned = std::unique_ptr<Object, int (*)(Object*)>;

struct DeviceLimits {
  std::uint32_t slices = 1;        ///< of a send request
  std::uint32_t requests = 16;     ///< of a queue
  std::uint32_t completions = 16;  ///< of a completion queue
  std::size_t message_bytes = 4096;
  bool locked_memory = false;  ///< what the process may lock is limited
};

class Device {
 public:
  static Result<std::shared_ptr<Device>> open(const VerbsLibrary& verbs, const DeviceChoice& choice);

  const VerbsLibrary& verbs() const { return verbs_; }
  const DeviceChoice& choice() const { return choice_; }
  const DeviceLimits& limits() const { return limits_; }
  ibv_context* context() const { return context_.get(); }
  ibv_pd* domain() const { return domain_.get(); }
  DeviceEvents& events() { return events_; }

 private:
  Device(const VerbsLibrary& verbs, const DeviceChoice& choice, Owned<ibv_context> context);

  const VerbsLibrary verbs_;
  const DeviceChoice choice_;
  DeviceLimits limits_;
  Owned<ibv_context> context_;
  DeviceEvents events_;
  Owned<ibv_pd> domain_;
};

/// Memory that the device may read and peers may write to while they hold its key.
class DeviceMemory {
 public:
  DeviceMemory() = default;
  /// Nothing is registered for an empty span. Memory that this process may only read can be sent from.
  static Result<DeviceMemory> create(std::shared_ptr<Device> device, MemorySpan memory);

  std::uint32_t local_key() const { return region_ == nullptr ? 0 : region_->lkey; }
  std::uint32_t remote_key() const { return region_ == nullptr ? 0 : region_->rkey; }
  bool writable() const { return writable_; }

 private:
  std::shared_ptr<Device> device_;  // outlives the region
  Owned<ibv_mr> region_{nullptr, nullptr};
  bool writable_ = true;
};

/// What the endpoint's register_memory gives.
class VerbsRegistration final : public Registration {
 public:
  /// `on_device` covers `memory`, and may be shared with others.
  VerbsRegistration(MemorySpan memory, std::shared_ptr<const DeviceMemory> on_device)
      : Registration(memory), on_device_(std::move(on_device)) {}
  const DeviceMemory& on_device() const { return *on_device_; }

 private:
  const std::shared_ptr<const DeviceMemory> on_device_;
};

/// What a slice's memory is to the device; it was registered by an endpoint of this transport.
inline const DeviceMemory& on_device(const Slice& slice) {
  return static_cast<const VerbsRegistration&>(*slice.region).on_device();
}

/// "what: the system's words"; where it is about locked memory, the limit, and how much was asked for.
Status device_failure(std::string_view what, int error_number, std::size_t locked_bytes = 0);

}  // namespace rondel::verbs
