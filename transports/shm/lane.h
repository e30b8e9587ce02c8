// SPDX-License-Identifier: Apache-2.0
// The two ends of a lane: bytes go in at one and come out at the other in order, without a lock. Each end
// belongs to one thread; positions only rise, and each is written by one side: an end that sees a position
// sees everything that was written before it. What the other side writes is not trusted further than that it
// is a position. Neither end ever waits.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstring>
#include <span>

#include "transports/shm/segment.h"

namespace rondel::shm {

class LaneWriter {
 public:
  LaneWriter(LaneState& state, std::byte* ring) : state_(state), ring_(ring) {}

  /// How many bytes can be put; always a multiple of kAlignment when all that was put is.
  std::size_t room() const {
    const std::uint64_t used = at_ - state_.taken.load(std::memory_order_acquire);  // pairs with release()
    return used > kLaneBytes ? 0 : kLaneBytes - static_cast<std::size_t>(used);
  }
  /// `bytes` fit in room(). The reader sees them after publish().
  void put(std::span<const std::byte> bytes) {
    while (!bytes.empty()) {
      const std::size_t offset = at_ % kLaneBytes;
      const auto piece = bytes.first(std::min(bytes.size(), kLaneBytes - offset));
      std::memcpy(ring_ + offset, piece.data(), piece.size());
      at_ += piece.size();
      bytes = bytes.subspan(piece.size());
    }
  }
  /// Skips to where a frame may begin.
  void align() { at_ = (at_ + kAlignment - 1) / kAlignment * kAlignment; }
  void publish() { state_.written.store(at_, std::memory_order_release); }  // pairs with available()

 private:
  LaneState& state_;
  std::byte* const ring_;
  std::uint64_t at_ = 0;
};

class LaneReader {
 public:
  LaneReader(LaneState& state, const std::byte* ring) : state_(state), ring_(ring) {}

  /// More than kLaneBytes when the writer has gone mad.
  std::uint64_t available() const {
    return state_.written.load(std::memory_order_acquire) - at_;  // pairs with publish()
  }
  /// The next bytes as far as they lie in one run, at most `limit`; they stay until release().
  std::span<const std::byte> peek(std::size_t limit) const {
    const std::size_t offset = at_ % kLaneBytes;
    const auto there = std::min<std::uint64_t>(available(), limit);
    return {ring_ + offset, std::min<std::size_t>(static_cast<std::size_t>(there), kLaneBytes - offset)};
  }
  void skip(std::size_t bytes) { at_ += bytes; }
  void align() { at_ = (at_ + kAlignment - 1) / kAlignment * kAlignment; }
  /// Gives the room of what was skipped back to the writer.
  void release() { state_.taken.store(at_, std::memory_order_release); }  // pairs with room()

 private:
  LaneState& state_;
  const std::byte* const ring_;
  std::uint64_t at_ = 0;
};

}  // namespace rondel::shm
