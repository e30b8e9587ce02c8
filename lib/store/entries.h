// SPDX-License-Identifier: Apache-2.0
// Entries: the keys and values of one store, with its limits and the arithmetic of counters. The shared
// inside of the memory store and the TCP server. No waiting, no locking, no input or output; one thread at a
// time.
#pragma once

#include <cstdint>
#include <map>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "lib/deadline.h"
#include "lib/memory.h"
#include "lib/status.h"

namespace rondel::store {

/// invalid_argument when the key is empty or over its limit.
Status check_key(std::string_view key);
/// The same for a key and a value.
Status check_entry(std::string_view key, std::span<const std::byte> value);

/// Counters are kept as decimal text, in every store. The text of (what is at `key`) + increment; `old_value`
/// is null when the key is not set. invalid_argument when that is no number or the sum does not fit in 64
/// bits.
Result<std::int64_t> add_to_counter(std::string_view key, const Bytes* old_value, std::int64_t increment);
Bytes counter_text(std::int64_t value);

/// "key 'a', key 'b' and 3 more not set after 5.0 s"
Status not_set(std::span<const std::string> missing, Deadline::Clock::time_point since);

class Entries {
 public:
  Status set(std::string_view key, std::span<const std::byte> value);
  Result<std::int64_t> add(std::string_view key, std::int64_t increment);
  /// Null while `key` is not set.
  const Bytes* find(std::string_view key) const;
  std::vector<std::string> missing_of(std::span<const std::string> keys) const;

 private:
  std::map<std::string, Bytes, std::less<>> values_;
};

}  // namespace rondel::store
