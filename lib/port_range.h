// SPDX-License-Identifier: Apache-2.0
// PortRange: the ports among which listeners choose (RONDEL_PORTS). Pure, any thread.
#pragma once

#include <cstdint>
#include <string>

#include "lib/status.h"

namespace rondel {

/// Both 0: the kernel's choice.
struct PortRange {
  std::uint16_t first = 0;
  std::uint16_t last = 0;
};

/// "4000-4100" or "4000"; empty: the kernel's choice.
Result<PortRange> parse_port_range(const std::string& text);

}  // namespace rondel
