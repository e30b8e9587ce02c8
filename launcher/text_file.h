// SPDX-License-Identifier: Apache-2.0
// Files that a user writes by hand, whole or line by line. No state; any thread.
#pragma once

#include <chrono>
#include <cstddef>
#include <functional>
#include <string>
#include <string_view>

#include "lib/status.h"

namespace rondel {

/// Reads until the end, so a pipe is as good as a file; at most 16 MiB. `kind` is for errors: "hostfile". A
/// file that can not be read is `unavailable`, with the system's words.
Result<std::string> read_text_file(const std::string& path, std::string_view kind,
                                   std::chrono::milliseconds pipe_patience = std::chrono::seconds(10));

/// Gives each line to `use`, without its end ("\n" or "\r\n") and without a byte order mark before the first.
/// The first failure ends it.
Status for_each_line(std::string_view text, const std::function<Status(std::string_view line)>& use);

}  // namespace rondel
