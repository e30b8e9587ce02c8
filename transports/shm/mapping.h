// SPDX-License-Identifier: Apache-2.0
// Mapping: another process's shared memory, mapped here as a whole. Unmapped when it goes. Refuses memory
// that its owner could make smaller, as touching what is gone would end this process. A value, one thread at
// a time.
#pragma once

#include <cstddef>
#include <span>
#include <utility>

#include "lib/status.h"

namespace rondel::shm {

class Mapping {
 public:
  /// Maps all of `fd` for loads and stores; it may be closed afterwards.
  static Result<Mapping> of(int fd);

  Mapping(Mapping&& other) noexcept : bytes_(std::exchange(other.bytes_, {})) {}
  Mapping& operator=(Mapping&& other) noexcept {
    std::swap(bytes_, other.bytes_);
    return *this;
  }
  ~Mapping();

  std::span<std::byte> bytes() const { return bytes_; }

 private:
  explicit Mapping(std::span<std::byte> bytes) : bytes_(bytes) {}

  std::span<std::byte> bytes_;
};

}  // namespace rondel::shm
