// SPDX-License-Identifier: Apache-2.0
#include "lib/service_thread.h"

#include <fmt/format.h>

#include <chrono>
#include <new>
#include <system_error>
#include <utility>

#include "lib/log.h"

namespace rondel {
namespace {

constexpr std::chrono::milliseconds kPause{20};

// Saying so may need memory too.
void warn_of_memory(const std::string& what) try {
  log(LogLevel::warn, "{}: memory ran out; raise the limit (ulimit -v, the container's)", what);
} catch (const std::bad_alloc&) {  // NOLINT(bugprone-empty-catch): nothing is left to say it with
}

void serve(const std::string& what, const std::function<void()>& work) {
  bool told = false;
  for (;;) {
    try {
      return work();
    } catch (const std::bad_alloc&) {
      if (!std::exchange(told, true)) warn_of_memory(what);
    }
    std::this_thread::sleep_for(kPause);
  }
}

}  // namespace

Result<std::thread> start_service(std::string what, std::function<void()> work) try {
  return std::thread([what, work = std::move(work)] { serve(what, work); });
} catch (const std::system_error& error) {
  return Status(Code::out_of_resources, fmt::format("can not start a thread for {}: {}", what, error.what()),
                "raise the limits on memory and processes (ulimit -v, ulimit -u)");
}

}  // namespace rondel
