// SPDX-License-Identifier: Apache-2.0
// start_service: the library's own threads, which must not end the program that they serve. A thread that can
// not be started is an error, and memory that runs out in one is waited for.
#pragma once

#include <functional>
#include <string>
#include <thread>

#include "lib/status.h"

namespace rondel {

/// Runs `work` in a thread of its own until it returns. It is called again, after a pause, when memory ran
/// out in it, so it must be able to go on from its state. out_of_resources names `what` and the limits. Any
/// thread.
Result<std::thread> start_service(std::string what, std::function<void()> work);

}  // namespace rondel
