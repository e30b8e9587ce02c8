// SPDX-License-Identifier: Apache-2.0
// What the two ends of a queue pair send each other. Works of few bytes go eagerly, inside a message. For
// the others the receiver sends a credit for each piece that it is ready for: which work it means, and where
// the bytes belong. The sender compares, then writes the piece with an immediate that is the piece's number;
// or it refuses and says what it would have sent. A queue pair keeps order, so credits, pieces and works
// pair by counting. Where a link has several pairs, all but pieces goes over the first; pieces go over all in
// turn, and one may be ahead of what another still carries. Little-endian, like the hosts that it runs on.
#pragma once

#include <bit>
#include <cstddef>
#include <cstdint>
#include <type_traits>

#include "transports/work.h"
#include "transports/work_queue.h"

namespace rondel::verbs {

/// Rises whenever something here, or its meaning, changes: both ends must have the same.
inline constexpr std::uint32_t kLayout = 3;

enum class MessageKind : std::uint32_t {
  credit = 0x43444e52,
  refusal = 0x52444e52,
  payload = 0x50444e52,   // an EagerHeader and the bytes of a work
  returned = 0x56444e52,  // an EagerHeader: nothing but word of receives that are free again
};

/// Works of at most so many bytes go eagerly: both sides know from the length alone.
inline constexpr std::size_t kEagerBytes = 768;
constexpr bool goes_eagerly(std::uint64_t work_bytes) { return work_bytes <= kEagerBytes; }
/// Eager messages that may be on their way, or wait for their receive to be posted.
inline constexpr std::uint32_t kEagerWindow = 16;

struct EagerHeader {
  MessageKind kind = MessageKind::payload;
  std::uint32_t work = 0;      // counts the works of this direction, from 0, wraps
  std::uint32_t bytes = 0;     // that follow
  std::uint32_t returned = 0;  // eager messages of the other direction that have been taken, wraps
  Label label;
};
static_assert(sizeof(EagerHeader) == 32 && std::is_trivially_copyable_v<EagerHeader>);

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
  std::uint32_t work = 0;        // counts the works of this direction; refusal: the sender's
  std::uint32_t returned = 0;    // credit: see EagerHeader
  std::uint32_t reserved = 0;
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
static_assert(kMessageBytes % 64 == 0 && sizeof(EagerHeader) + kEagerBytes <= kMessageBytes);

/// Pieces that a receiver may have announced and not got. A work has one, or one for each stage that it
/// fills.
inline constexpr std::uint32_t kMaxPieces = 2 * kMaxInFlight;
/// Queue pairs of a link, at most (RONDEL_VERBS_QPS).
inline constexpr std::uint32_t kMostPairs = 8;
/// Messages of the kind `returned` that may be on their way: each tells of half a window.
inline constexpr std::uint32_t kMostReturns = 2;
/// Receives that were used are posted again so many at a time, in one list.
inline constexpr std::uint32_t kReceivesPerList = 8;
/// Requests that a receiving queue must hold: the peer's credits, its writes, its eager messages and its
/// returns, one refusal, and those that are not posted again yet.
inline constexpr std::uint32_t kReceiveDepth =
    2 * kMaxPieces + kEagerWindow + kMostReturns + 1 + kReceivesPerList;
/// The same of a further pair, over which all the pieces may come.
inline constexpr std::uint32_t kStripeReceives = kMaxPieces + kReceivesPerList;

}  // namespace rondel::verbs
