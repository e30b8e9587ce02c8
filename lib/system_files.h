// SPDX-License-Identifier: Apache-2.0
// The small files of /proc and /sys, read whole: what is not there, or may not be read, is empty. No state;
// any thread.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <vector>

namespace rondel {

/// Its beginning, where it is longer than `most_bytes`.
std::string whole_text(const std::string& path, std::size_t most_bytes = std::size_t{1} << 20U);
std::string first_line(const std::string& path);
/// A whole number that stands alone on the first line.
std::optional<std::int64_t> number_in(const std::string& path);
/// What a folder holds, in order of names.
std::vector<std::string> names_in(const std::string& folder);
/// The memory node that a device is near to; none when the system does not say.
std::optional<int> numa_node_of(const std::string& device_folder);

}  // namespace rondel
