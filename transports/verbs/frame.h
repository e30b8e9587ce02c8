// SPDX-License-Identifier: Apache-2.0
// What the two ends of a queue pair send each other beside payload. The receiver sends a credit for each
// piece that it is ready for: which work it means, and where the bytes belong. The sender compares, then
// writes the piece with an immediate that is the piece's number; or it refuses and says what it would have
// sent. The queue pair keeps order, so credits, pieces and works pair by counting. Little-endian, like the
// hosts that it runs on.
#pragma once

#include <bit>
#include <cstddef>
#include <cstdint>
#include <type_traits>

#include "transports/work.h"
#include "transports/work_queue.h"

namespace rondel::verbs {

enum class MessageKind : std::uint32_t { credit = 0x43444e52, refusal = 0x52444e52 };

/// A run of the receiver's memory.
struct RemoteRange {
  std::uint64_t address = 0;
  std::uint64_t bytes = 0;
  std::uint32_t key = 0;
  std::uint32_t reserved = 0;  // zero
};

struct MessageHeader {
  MessageKind kind = MessageKind::credit;
  std::uint32_t piece = 0;       // counts the pieces of this direction, from 0, wraps
  std::uint64_t work_bytes = 0;  // of the whole work that the piece is of; refusal: the sender's
  std::uint64_t offset = 0;      // of the piece in the work
  std::uint64_t bytes = 0;       // of the piece
  Label label;                   // refusal: the sender's
  std::uint32_t ranges = 0;      // that follow; their bytes are the piece's
  std::uint32_t reserved[3] = {};
};
static_assert(sizeof(MessageHeader) == 64 && std::is_trivially_copyable_v<MessageHeader>);
static_assert(sizeof(RemoteRange) == 24 && std::is_trivially_copyable_v<RemoteRange>);
static_assert(std::endian::native == std::endian::little, "the wire is little-endian");

inline constexpr std::uint32_t kMaxSlices = 30;
struct Message {
  MessageHeader header;
  RemoteRange ranges[kMaxSlices];
  std::uint64_t reserved[6];  // up to a multiple of a cache line
};
inline constexpr std::size_t kMessageBytes = sizeof(Message);
static_assert(kMessageBytes % 64 == 0);

/// Pieces that a receiver may have announced and not got. A work has one, or one for each stage that it
/// fills.
inline constexpr std::uint32_t kMaxPieces = 2 * kMaxInFlight;
/// Requests that a receiving queue must hold: the peer's credits, its writes, and one refusal.
inline constexpr std::uint32_t kReceiveDepth = 2 * kMaxPieces + 2;

}  // namespace rondel::verbs
