// SPDX-License-Identifier: Apache-2.0
// The value of -H: hosts with commas between them, as in node1:2,root@n[01-16]:8,[fe80::1%eth0]. Pure; it
// does not look names up.
#pragma once

#include <string_view>
#include <vector>

#include "launcher/host.h"
#include "lib/status.h"

namespace rondel {

/// Each host once, in the order in which they were first named; a host named again adds its slots, and :SLOTS
/// left out is 1. invalid_argument shows the item and says what is wrong in it and what was expected.
Result<std::vector<Host>> parse_host_list(std::string_view text);

}  // namespace rondel
