// SPDX-License-Identifier: Apache-2.0
// OwnMemory: whole pages of this library's own that a device can reach: messages, stages. No other data lies
// on them, so that a fork can not take them away from the device. Owned by a link; driver thread only.
#pragma once

#include <cstddef>
#include <memory>

#include "lib/status.h"
#include "transports/verbs/device.h"

namespace rondel::verbs {

class OwnMemory {
 public:
  OwnMemory() = default;
  /// All zero, and faulted in.
  static Result<OwnMemory> create(std::shared_ptr<Device> device, std::size_t bytes);
  OwnMemory(OwnMemory&& other) noexcept;
  OwnMemory& operator=(OwnMemory&& other) noexcept;
  OwnMemory(const OwnMemory&) = delete;
  OwnMemory& operator=(const OwnMemory&) = delete;
  ~OwnMemory();

  std::byte* data() const { return data_; }
  std::size_t bytes() const { return bytes_; }
  const DeviceMemory& on_device() const { return on_device_; }

 private:
  std::byte* data_ = nullptr;
  std::size_t bytes_ = 0;
  DeviceMemory on_device_;
};

}  // namespace rondel::verbs
