// SPDX-License-Identifier: Apache-2.0
#include "lib/log.h"

#include <spdlog/sinks/stdout_sinks.h>
#include <spdlog/spdlog.h>

#include <memory>
#include <string>

namespace rondel {
namespace {

spdlog::logger& process_logger() {
  // Never destroyed: threads may still log while the process exits.
  static spdlog::logger& logger = *[] {
    auto* made = new spdlog::logger("rondel", std::make_shared<spdlog::sinks::stderr_sink_mt>());
    made->set_level(spdlog::level::warn);
    made->set_pattern("%Y-%m-%d %H:%M:%S.%e rondel %l: %v");
    return made;
  }();
  return logger;
}

spdlog::level::level_enum to_spdlog(LogLevel level) {
  switch (level) {
    case LogLevel::trace:
      return spdlog::level::trace;
    case LogLevel::debug:
      return spdlog::level::debug;
    case LogLevel::info:
      return spdlog::level::info;
    case LogLevel::warn:
      return spdlog::level::warn;
    case LogLevel::error:
      return spdlog::level::err;
    case LogLevel::off:
      break;
  }
  return spdlog::level::off;
}

}  // namespace

void set_log_level(LogLevel level) { process_logger().set_level(to_spdlog(level)); }

void configure_log(LogLevel level, std::string_view prefix) {
  set_log_level(level);
  std::string escaped;
  for (const char c : prefix) escaped += c == '%' ? "%%" : std::string(1, c);
  const std::string who = escaped.empty() ? "" : " " + escaped;
  process_logger().set_pattern("%Y-%m-%d %H:%M:%S.%e rondel" + who + " %l: %v");
}

bool log_enabled(LogLevel level) { return process_logger().should_log(to_spdlog(level)); }

void log_line(LogLevel level, std::string_view text) {
  process_logger().log(to_spdlog(level), spdlog::string_view_t(text.data(), text.size()));
}

}  // namespace rondel
