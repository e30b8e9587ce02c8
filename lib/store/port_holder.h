// SPDX-License-Identifier: Apache-2.0
// Who listens on a local TCP port, from /proc, for the error text of a failed bind. Any thread; slow.
#pragma once

#include <cstdint>
#include <string>

namespace rondel::store {

/// ", which process 1234 (python3) holds" or, where that is not readable, the empty string.
std::string describe_port_holder(std::uint16_t port);

}  // namespace rondel::store
