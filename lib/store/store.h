// SPDX-License-Identifier: Apache-2.0
// The key-value rendezvous through which ranks find one another. Implementations: memory (threads of one
// process), file (a directory that all ranks see), tcp (client and server). One thread per Store object
// unless it says more.
#pragma once

#include <chrono>
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
/// For what a store answers at once, where the caller has no deadline of its own.
inline constexpr std::chrono::seconds kStorePatience{30};

class Store {
 public:
  virtual ~Store() = default;

  // A store in another process may fall silent. Every call then ends at its deadline, give or take half a
  // second, with timed_out; the failure says so and has as its peer the rank that keeps the store, if one
  // does.

  /// Sets `key`, replacing what was there. invalid_argument when key or value is over its limit. When the
  /// deadline passes before the answer comes, `key` may be set nevertheless.
  virtual Status set(std::string_view key, std::span<const std::byte> value, Deadline deadline) = 0;
  /// Waits until `key` is set and returns its value; timed_out names the key and how long was waited.
  virtual Result<Bytes> get(std::string_view key, Deadline deadline) = 0;
  /// Adds to the counter at `key` (absent counts as 0) and returns the sum. Late as set is.
  virtual Result<std::int64_t> add(std::string_view key, std::int64_t increment, Deadline deadline) = 0;
  /// Waits until every key is set; timed_out names the missing ones.
  virtual Status wait(std::span<const std::string> keys, Deadline deadline) = 0;
  /// Those of `keys` that are not set now. timed_out: the store is silent, nothing is known of the keys.
  virtual Result<std::vector<std::string>> missing(std::span<const std::string> keys, Deadline deadline) = 0;

  Status set(std::string_view key, std::span<const std::byte> value) {
    return set(key, value, Deadline::in(kStorePatience));
  }
  Result<std::int64_t> add(std::string_view key, std::int64_t increment) {
    return add(key, increment, Deadline::in(kStorePatience));
  }
};

}  // namespace rondel
