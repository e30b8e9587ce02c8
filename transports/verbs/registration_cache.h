// SPDX-License-Identifier: Apache-2.0
// RegistrationCache: keeps memory of rondel_alloc registered between works, whole regions at a time, and lets
// go of it when the region has gone. Of other memory nobody tells when it is unmapped, so that is registered
// for each use. Shared by the endpoints on one device, so that none pins a region again. Any thread.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <mutex>
#include <vector>

#include "lib/memory.h"
#include "lib/shared_memory.h"
#include "lib/status.h"
#include "transports/verbs/device.h"

namespace rondel::verbs {

class RegistrationCache {
 public:
  /// Regions kept; beyond them, the one that was used longest ago goes.
  static constexpr std::size_t kMost = 64;

  explicit RegistrationCache(std::shared_ptr<Device> device)
      : device_(std::move(device)), departures_(SharedMemory::departures()) {}

  const std::shared_ptr<Device>& device() const { return device_; }
  /// `memory` for the device; what is given out stays good whatever the cache forgets.
  Result<std::shared_ptr<const DeviceMemory>> find_or_register(MemorySpan memory);
  /// Unpins regions that have gone since the last call.
  void forget_departed();
  std::size_t size() const;

 private:
  struct Entry {
    std::uint64_t region = 0;  // SharedMemory::id
    std::uint64_t last_use = 0;
    std::shared_ptr<const DeviceMemory> memory;
  };

  Result<std::shared_ptr<const DeviceMemory>> pin(MemorySpan memory);
  void forget_departed_locked();

  const std::shared_ptr<Device> device_;
  mutable std::mutex mutex_;  // guards what follows
  std::vector<Entry> entries_;
  std::uint64_t uses_ = 0;
  std::uint64_t departures_;
};

}  // namespace rondel::verbs
