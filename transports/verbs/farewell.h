// SPDX-License-Identifier: Apache-2.0
// The last word of a rank that leaves, on the socket over which the two met: how many pieces it has had. Who
// waits only for the acknowledgement of those knows then that they have arrived. Driver thread only.
#pragma once

#include <cstdint>
#include <optional>
#include <string>

namespace rondel::verbs {

struct Farewell {
  std::uint32_t pieces_received = 0;
  std::string why;  ///< completes "lost the connection to rank 3: ..."
};

/// Does not wait; a socket that takes nothing is closed without a word.
void say_farewell(int socket, std::uint32_t pieces_received);
/// Nothing while the peer is there. The peer's death is a farewell without pieces.
std::optional<Farewell> hear_farewell(int socket);

}  // namespace rondel::verbs
