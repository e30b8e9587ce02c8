// SPDX-License-Identifier: Apache-2.0
// RegistrationCache: keeps memory registered between works: regions of rondel_alloc, whole, until they go,
// and other memory that is used again, for as long as the kernel tells of its changes. Shared by the
// endpoints on one device, so that none pins memory again. Any thread.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <mutex>
#include <vector>

#include "lib/mapping_watch.h"
#include "lib/memory.h"
#include "lib/shared_memory.h"
#include "lib/status.h"
#include "transports/verbs/device.h"

namespace rondel::verbs {

class RegistrationCache {
 public:
  /// Pieces of memory kept; beyond them, the one that was used longest ago goes.
  static constexpr std::size_t kMost = 64;

  /// `keeps_other`: keep memory that is not rondel_alloc's too, where the kernel lets this process watch it.
  RegistrationCache(std::shared_ptr<Device> device, bool keeps_other);
  ~RegistrationCache();
  RegistrationCache(const RegistrationCache&) = delete;
  RegistrationCache& operator=(const RegistrationCache&) = delete;

  const std::shared_ptr<Device>& device() const { return device_; }
  /// `memory` for the device; what is given out stays good whatever the cache forgets.
  Result<std::shared_ptr<const DeviceMemory>> find_or_register(MemorySpan memory);
  /// Unpins what has gone since the last call.
  void forget_departed();
  /// Unpins other memory that no operation is using, before this process forks.
  void let_go_of_idle();
  std::size_t size() const;

 private:
  struct Entry {
    std::uint64_t region = 0;  // SharedMemory::id; 0: other memory, which is watched
    MemorySpan span;
    MappingWatch::Watched watched;
    std::uint64_t last_use = 0;
    std::shared_ptr<const DeviceMemory> memory;
  };
  /// Other memory that was used, and is not kept.
  struct Seen {
    MemorySpan span;
    bool stays_so = false;     // it can not be watched
    std::uint32_t losses = 0;  // so often it was kept and went
  };
  using Pinned = Result<std::shared_ptr<const DeviceMemory>>;

  Pinned pin(MemorySpan memory);
  Pinned find_or_pin_region(MemorySpan memory, const SharedMemory::Place& place);
  Pinned find_or_pin_other(MemorySpan memory);
  Pinned pin_watched(MemorySpan memory, Seen& seen);
  Seen* find_seen(const MemorySpan& memory);
  const std::shared_ptr<MappingWatch>& watch();
  void keep(Entry entry);
  void forget_departed_locked();

  const std::shared_ptr<Device> device_;
  mutable std::mutex mutex_;  // guards what follows
  bool keeps_other_;
  std::shared_ptr<MappingWatch> watch_;  // null until it is needed
  std::vector<Entry> entries_;
  std::array<Seen, kMost> seen_{};  // a ring
  std::size_t next_seen_ = 0;
  std::uint64_t uses_ = 0;
  std::uint64_t departures_;
  std::uint64_t changes_ = 0;
};

}  // namespace rondel::verbs
