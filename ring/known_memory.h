// SPDX-License-Identifier: Apache-2.0
// KnownMemory: what the user told a communicator that many operations will use, prepared once on one
// endpoint. Owned by a lane; driver thread only. Does not own the memory.
#pragma once

#include <cstdint>
#include <memory>
#include <vector>

#include "lib/status.h"
#include "transports/endpoint.h"

namespace rondel {

class KnownMemory {
 public:
  /// `endpoint` may be null (a single rank); then memory is only noted.
  explicit KnownMemory(Endpoint* endpoint) : endpoint_(endpoint) {}

  Status add(std::uint64_t id, MemorySpan memory);
  void remove(std::uint64_t id);

  /// A slice of the region that holds all of [data, data + bytes); its region is null when there is none.
  Slice find(const void* data, std::uint64_t bytes) const;
  /// Prepares memory for one operation.
  Result<std::unique_ptr<Registration>> prepare(MemorySpan memory) const;

 private:
  struct Entry {
    std::uint64_t id;
    std::unique_ptr<Registration> registration;
  };

  Endpoint* const endpoint_;
  std::vector<Entry> entries_;
};

}  // namespace rondel
