// SPDX-License-Identifier: Apache-2.0
// A Store in a directory that all ranks see (one file per key, written whole and renamed). One thread per
// object, many processes per directory. A directory that disappears makes calls fail, never hang.
#pragma once

#include <chrono>
#include <memory>
#include <span>
#include <string>
#include <string_view>

#include "lib/deadline.h"
#include "lib/status.h"
#include "lib/store/store.h"

namespace rondel {

/// Creates `directory` with mode 0700 when it is missing; refuses one that other users can write.
Result<std::unique_ptr<Store>> open_file_store(const std::string& directory);

/// Removes `key`, if its value is still `value`: somebody else's stays.
Status take_back(const std::string& directory, std::string_view key, std::span<const std::byte> value,
                 Deadline deadline);

/// Removes values that nobody has written for `age` from a store that many jobs share, one after the other:
/// what crashed ones left. Does nothing while somebody writes.
void forget_old_values(const std::string& directory, std::chrono::hours age);

}  // namespace rondel
