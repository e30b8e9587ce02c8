// SPDX-License-Identifier: Apache-2.0
// What two ranks say on the socket over which they met. A question: for which eager work one has waited long,
// so that a peer with a larger one in its place says so. A farewell, from who leaves: how many pieces it has
// had; who waits only for the acknowledgement of those knows then that they have arrived. Driver thread only.
#pragma once

#include <cstdint>
#include <optional>
#include <string>

namespace rondel::verbs {

struct LinkWord {
  bool farewell = true;
  std::uint32_t number = 0;  ///< pieces received, or the work that is asked for
  std::string why;           ///< farewell: completes "lost the connection to rank 3: ..."
};

/// These do not wait; a socket that takes nothing misses a word.
void say_farewell(int socket, std::uint32_t pieces_received);
void ask_for(int socket, std::uint32_t work);
/// Nothing while nothing is said. The peer's death is a farewell without pieces.
std::optional<LinkWord> hear(int socket);

}  // namespace rondel::verbs
