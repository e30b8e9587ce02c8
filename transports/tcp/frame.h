// SPDX-License-Identifier: Apache-2.0
// The 64 bytes in front of each work's payload. TCP keeps order and both ends know the schedule, so the
// header moves nothing: it is the check that both ends mean the same work. A cache line long, so that the
// payload behind it stays aligned in the kernel's buffers and is copied faster. Little-endian, like the hosts
// that it runs on.
#pragma once

#include <bit>
#include <cstdint>
#include <cstring>
#include <type_traits>

#include "transports/work.h"

namespace rondel::tcp {

struct FrameHeader {
  std::uint32_t mark = 0;      // kFrameMark
  std::uint32_t sequence = 0;  // of the works on this link and direction, from 0, wraps
  std::uint64_t bytes = 0;     // of payload that follow
  Label label;
  std::uint64_t reserved[4] = {};  // zero
};
static_assert(sizeof(FrameHeader) == 64 && std::is_trivially_copyable_v<FrameHeader>);
static_assert(std::endian::native == std::endian::little, "the wire is little-endian");

inline constexpr std::uint32_t kFrameMark = 0x4c444e52;  // "RNDL"
inline constexpr std::size_t kHeaderBytes = sizeof(FrameHeader);

}  // namespace rondel::tcp
