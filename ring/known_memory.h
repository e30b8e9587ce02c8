// SPDX-License-Identifier: Apache-2.0
// KnownMemory: what is prepared once on one endpoint for many operations: what the user told a communicator
// of, and memory of rondel_alloc's, whole regions at a time, for as long as they are there. Other memory is
// prepared for each operation, because only an endpoint may know when it is unmapped; so is all where
// registered memory must be able to give way. Owned by a lane; driver thread only. Does not own the memory.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <vector>

#include "lib/shared_memory.h"
#include "lib/status.h"
#include "transports/endpoint.h"

namespace rondel {

class KnownMemory {
 public:
  /// Regions of rondel_alloc's that are kept. None gives way to another: an operation may be using it.
  static constexpr std::size_t kMostKept = 16;

  /// `endpoint` may be null (a single rank); then memory is only noted.
  explicit KnownMemory(Endpoint* endpoint) : endpoint_(endpoint) {}

  Status add(std::uint64_t id, MemorySpan memory);
  void remove(std::uint64_t id);

  /// A slice of known memory that holds all of [data, data + bytes); its region is null when there is none.
  /// Lets go of regions that have gone.
  Slice find(const void* data, std::uint64_t bytes);
  /// Prepares memory for one operation.
  Result<std::unique_ptr<Registration>> prepare(MemorySpan memory) const;

 private:
  struct Entry {
    std::uint64_t id;  // the user's, or SharedMemory::id
    std::unique_ptr<Registration> registration;
  };

  static Slice find_in(const std::vector<Entry>& entries, const void* data, std::uint64_t bytes);
  void forget_departed();
  /// False when no region holds it, or there is no room for that.
  bool keep_region_of(const void* data, std::uint64_t bytes);

  Endpoint* const endpoint_;
  std::vector<Entry> told_;
  std::vector<Entry> kept_;
  std::uint64_t departures_ = SharedMemory::departures();
};

}  // namespace rondel
