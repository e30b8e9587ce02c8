// SPDX-License-Identifier: Apache-2.0
// The key-value rendezvous through which ranks find one another. Implementations: memory (threads of one
// process), file (a directory that all ranks see), tcp (client and server). One thread per Store object
// unless it says more.
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "lib/deadline.h"
#include "lib/memory.h"
#include "lib/status.h"

namespace rondel {

inline constexpr std::size_t kStoreKeyLimit = 1024;           // bytes
inline constexpr std::size_t kStoreValueLimit = 1024 * 1024;  // bytes

class Store {
 public:
  virtual ~Store() = default;

  /// Sets `key`, replacing what was there. invalid_argument when key or value is over its limit.
  virtual Status set(std::string_view key, std::span<const std::byte> value) = 0;
  /// Waits until `key` is set and returns its value; timed_out names the key and how long was waited.
  virtual Result<Bytes> get(std::string_view key, Deadline deadline) = 0;
  /// Adds to the counter at `key` (absent counts as 0) and returns the sum.
  virtual Result<std::int64_t> add(std::string_view key, std::int64_t increment) = 0;
  /// Waits until every key is set; timed_out names the missing ones.
  virtual Status wait(std::span<const std::string> keys, Deadline deadline) = 0;
};

}  // namespace rondel
