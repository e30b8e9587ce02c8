// SPDX-License-Identifier: Apache-2.0
// Scratch: the memory that schedules use beside the user's buffers. Kept from operation to operation and
// faulted in when it grows, because fresh pages cost more than the bytes that pass through them. Owned by a
// communicator, driver thread only; nothing may be in flight when it grows.
#pragma once

#include <cstring>
#include <memory>
#include <new>

#include "transports/endpoint.h"

namespace rondel {

class Scratch {
 public:
  explicit Scratch(Endpoint& endpoint) : endpoint_(endpoint) {}

  /// At least `bytes` of registered memory.
  Result<const Registration*> hold(std::size_t bytes) {
    if (bytes > bytes_ || registration_ == nullptr) RONDEL_TRY(grow(bytes));
    return static_cast<const Registration*>(registration_.get());
  }

 private:
  struct Free {
    void operator()(std::byte* memory) const { ::operator delete (memory, std::align_val_t{4096}); }
  };

  Status grow(std::size_t bytes) {
    bytes = (std::max<std::size_t>(bytes, 2 * bytes_) + 4095) / 4096 * 4096;
    auto* memory = static_cast<std::byte*>(::operator new (bytes, std::align_val_t{4096}, std::nothrow));
    if (memory == nullptr) return Status(Code::out_of_resources, "no memory for the scratch of a collective");
    std::unique_ptr<std::byte[], Free> kept(memory);
    std::memset(memory, 0, bytes);
    auto registration = endpoint_.register_memory({memory, bytes, MemoryKind::host});
    RONDEL_TRY(registration);
    registration_ = std::move(registration).value();
    memory_ = std::move(kept);
    bytes_ = bytes;
    return {};
  }

  Endpoint& endpoint_;
  std::size_t bytes_ = 0;
  std::unique_ptr<std::byte[], Free> memory_;
  std::unique_ptr<Registration> registration_;  // goes before its memory
};

}  // namespace rondel
