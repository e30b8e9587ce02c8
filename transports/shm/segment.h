// SPDX-License-Identifier: Apache-2.0
// Segment: the memory that the two ends of a link share: a lane of bytes in each direction, and what each
// side says of itself. Made by the side that dials, mapped by the other. All of it is in one memfd that has
// no name, so nothing is left behind whatever becomes of the two.
#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <optional>

#include "lib/shared_memory.h"
#include "lib/status.h"
#include "transports/shm/mapping.h"

namespace rondel::shm {

/// Room for what is on its way in one direction: four pieces of 32 KiB, which stay in a second-level cache.
inline constexpr std::size_t kLaneBytes = 128 * 1024;
/// Frames and the pieces of a frame begin at multiples of this, so that no header is cut by the lane's end.
inline constexpr std::size_t kAlignment = 64;

/// How far one direction is. Positions count bytes since the link began and only rise.
struct LaneState {
  alignas(64) std::atomic<std::uint64_t> written{0};  // by the sender
  alignas(64) std::atomic<std::uint64_t> taken{0};    // by the receiver: what may be overwritten
  // By the receiver: the frame that it can not read where it is, and how much of it it has.
  std::atomic<std::uint64_t> refused{0};
  std::atomic<std::uint64_t> refused_at{0};
  std::atomic<std::uint64_t> pulled{
      0};  // by the receiver: frames whose bytes it has read from the sender's memory
};

/// What one side says of itself.
struct alignas(64) SideState {
  std::atomic<std::uint32_t> sleeping{0};     // whoever sees 1 and makes it 0 sends a wake
  std::atomic<std::uint32_t> closed{0};       // 1 + the Code it closed with
  std::atomic<std::uint32_t> can_pull{0};     // it may read the other side's memory where it is
  std::atomic<std::uint32_t> can_not_map{0};  // nor map it
  std::atomic<std::uint32_t> reading{0};      // it is reading the other side's memory now
};

struct Segment {
  SideState side[2];
  LaneState lane[2];  // by the sending side
  alignas(4096) std::byte ring[2][kLaneBytes];
};
static_assert(std::atomic<std::uint64_t>::is_always_lock_free &&
                  std::atomic<std::uint32_t>::is_always_lock_free,
              "two processes use them");

/// One side's hold on a segment.
class SegmentHold {
 public:
  static Result<SegmentHold> create();
  /// The segment behind a descriptor that came from the peer; refused when it is none.
  static Result<SegmentHold> map(int fd);

  Segment& operator*() const { return *segment_; }
  Segment* operator->() const { return segment_; }
  /// Of a created one, to be sent to the peer.
  int fd() const { return own_ ? own_->fd() : -1; }

 private:
  std::optional<SharedMemory> own_;
  std::optional<Mapping> theirs_;
  Segment* segment_ = nullptr;
};

}  // namespace rondel::shm
