// SPDX-License-Identifier: Apache-2.0
// Stages: registered memory where bytes land that are folded from there. Used in turn: pieces arrive in the
// order in which they were announced. Made when the first reduction is posted. Owned by the link; driver
// thread only.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>

#include "lib/status.h"
#include "transports/verbs/own_memory.h"

namespace rondel::verbs {

class Stages {
 public:
  static constexpr std::uint32_t kCount = 8;
  static constexpr std::size_t kBytes = 256 * 1024;  // one; whole elements of every type

  bool made() const { return memory_.data() != nullptr; }
  Status make(std::shared_ptr<Device> device) {
    auto memory = OwnMemory::create(std::move(device), kCount * kBytes);
    RONDEL_TRY(memory);
    memory_ = *std::move(memory);
    return {};
  }
  bool has_room() const { return used_ < kCount; }
  /// The next one, until release().
  std::uint32_t take() {
    ++used_;
    return next_++ % kCount;
  }
  /// The one that was taken first.
  void release() { --used_; }

  std::span<std::byte> at(std::uint32_t stage) const { return {memory_.data() + stage * kBytes, kBytes}; }
  std::uint32_t remote_key() const { return memory_.on_device().remote_key(); }

 private:
  OwnMemory memory_;
  std::uint32_t next_ = 0;
  std::uint32_t used_ = 0;
};

}  // namespace rondel::verbs
