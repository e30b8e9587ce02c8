// SPDX-License-Identifier: Apache-2.0
// What RDMA devices this host has, as facts for device_choice. Opens each device for a moment and changes
// nothing. Any thread.
#pragma once

#include <vector>

#include "lib/status.h"
#include "transports/verbs/device_choice.h"
#include "transports/verbs/library.h"

namespace rondel::verbs {

/// Empty where the host has no device; unavailable when the system can not even say that.
Result<std::vector<DeviceFacts>> survey(const VerbsLibrary& verbs);

/// Whether it is worth to open the library at all: a look at the kernel's list, in microseconds.
bool kernel_has_devices();

}  // namespace rondel::verbs
