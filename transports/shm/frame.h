// SPDX-License-Identifier: Apache-2.0
// What stands in a lane: a header for each work, then its bytes, or the list of places where they lie in the
// sender's memory. Both ends run the same build on the same machine, so these are plain structs.
#pragma once

#include <cstdint>

#include "transports/work.h"

namespace rondel::shm {

inline constexpr std::uint32_t kFrameMark = 0x4d524652;  // "RFRM"

enum class Carries : std::uint32_t {
  bytes,  ///< the payload follows, as the lane has room for it
  places  ///< `places` entries follow at once; the receiver reads the payload there, and counts it as pulled
};

struct alignas(64) FrameHeader {
  std::uint32_t mark = kFrameMark;
  Carries carries = Carries::bytes;
  std::uint32_t number = 0;  // counts the frames of the lane
  std::uint32_t places = 0;
  std::uint64_t bytes = 0;
  std::uint64_t pull_number = 0;  // counts the frames that carry places, from 1
  Label label;
};
static_assert(sizeof(FrameHeader) == 64);

/// A run of bytes in the sender's memory.
struct PlaceEntry {
  std::uint64_t region = 0;  ///< SharedMemory::id, announced before; 0: `at` is an address in the sender
  std::uint64_t at = 0;      ///< offset in the region
  std::uint64_t bytes = 0;
  std::uint64_t unused = 0;
};

}  // namespace rondel::shm
