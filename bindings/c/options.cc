// SPDX-License-Identifier: Apache-2.0
#include "bindings/c/options.h"

#include <fmt/format.h>

#include <algorithm>
#include <chrono>
#include <cmath>
#include <cstring>

#include "bindings/c/errors.h"
#include "lib/log.h"

namespace rondel::c {
namespace {

/// Where the fields that every release had end; none can be cut off.
constexpr std::size_t kLeastOptions = sizeof(rondel_options_t);
constexpr std::size_t kMostOptions = 4096;

Status check_tail(const rondel_options_t& options) {
  if (options.struct_size < kLeastOptions || options.struct_size > kMostOptions)
    return wrong(fmt::format("rondel_options_t says that it has {} bytes, this library's has {}",
                             options.struct_size, sizeof(rondel_options_t)),
                 "begin with RONDEL_OPTIONS_INIT");
  const auto* bytes = reinterpret_cast<const unsigned char*>(&options);
  const bool zero = std::all_of(bytes + sizeof(rondel_options_t), bytes + options.struct_size,
                                [](unsigned char byte) { return byte == 0; });
  if (!zero)
    return Status(Code::unsupported, "rondel_options_t has fields set that this library does not know",
                  "load the librondel.so that belongs to the header, or leave those fields zero");
  return {};
}

void set_text(const char* value, std::string& target) {
  if (value != nullptr) target = value;
}

Status set_seconds(const char* name, double seconds, std::chrono::milliseconds& target) {
  constexpr double kMost = 1e8;
  if (seconds == 0) return {};
  if (!(seconds >= 0.001 && seconds <= kMost))
    return wrong(fmt::format("{} is {}, expected seconds from 0.001 to 100000000", name, seconds),
                 "use 0 for the default");
  target = std::chrono::milliseconds(std::llround(seconds * 1000.0));
  return {};
}

}  // namespace

Result<Settings> settings_from(const rondel_options_t* options) {
  auto config = Config::from_environment();
  RONDEL_TRY(config);
  Settings settings{.config = std::move(config).value(), .address = {}};
  set_log_level(settings.config.log_level);  // the start has things to say already
  if (options == nullptr) return settings;
  RONDEL_TRY(check_tail(*options));
  set_text(options->name, settings.config.job);
  set_text(options->transport, settings.config.transport);
  set_text(options->algorithm, settings.config.algorithm);
  set_text(options->address, settings.address);
  RONDEL_TRY(set_seconds("timeout_seconds", options->timeout_seconds, settings.config.timeout));
  RONDEL_TRY(
      set_seconds("start_timeout_seconds", options->start_timeout_seconds, settings.config.start_timeout));
  if (options->segment_bytes != 0)
    settings.config.segment_bytes = static_cast<std::size_t>(options->segment_bytes);
  return settings;
}

}  // namespace rondel::c
