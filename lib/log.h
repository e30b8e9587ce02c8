// SPDX-License-Identifier: Apache-2.0
// One log for the process: levels, and a sink that goes to stderr (spdlog behind it). Any thread. Logged
// once, where a failure is decided; callers that pass a Status on stay silent. Never give it a secret.
#pragma once

#include <fmt/format.h>

#include <cstdint>
#include <string_view>

namespace rondel {

enum class LogLevel : std::uint8_t { trace, debug, info, warn, error, off };

/// Sets what is shown; the prefix stays.
void set_log_level(LogLevel level);
/// Sets what is shown and the prefix ("rank 3") of each line. Called once at start; later calls replace both.
void configure_log(LogLevel level, std::string_view prefix);
bool log_enabled(LogLevel level);
void log_line(LogLevel level, std::string_view text);

template <class... Args>
void log(LogLevel level, fmt::format_string<Args...> format, Args&&... args) {
  if (log_enabled(level)) log_line(level, fmt::format(format, std::forward<Args>(args)...));
}

}  // namespace rondel
