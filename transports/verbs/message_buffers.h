// SPDX-License-Identifier: Apache-2.0
// MessageBuffers: the registered memory of a link's messages, and its posted receives. A receive is given
// back as soon as its message is taken, and posted again with others. Owned by the link; driver thread only.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>

#include "lib/status.h"
#include "transports/verbs/frame.h"
#include "transports/verbs/own_memory.h"

namespace rondel::verbs {

class MessageBuffers {
 public:
  static constexpr std::size_t kBytes =
      kMessageBytes * (kReceiveDepth + kMaxPieces + 1 + kEagerWindow + kMostReturns);
  static Result<MessageBuffers> create(std::shared_ptr<Device> device, std::uint32_t mark);

  /// To be called before pair's first packet: posts all receives. errno, or 0.
  int post_all(const VerbsLibrary& verbs, ibv_qp* pair);
  /// Where what `completion` tells of has arrived.
  static std::uint32_t slot_of(const ibv_wc& completion) {
    return static_cast<std::uint32_t>(completion.wr_id) % kReceiveDepth;
  }
  const Message& incoming(std::uint32_t slot) const { return slots()[slot]; }
  const EagerHeader& incoming_eager(std::uint32_t slot) const {
    return *reinterpret_cast<const EagerHeader*>(slots() + slot);
  }
  std::span<const std::byte> payload_in(std::uint32_t slot) const {
    const EagerHeader& header = incoming_eager(slot);
    return {reinterpret_cast<const std::byte*>(&header + 1), header.bytes};
  }
  /// The message or the immediate in `slot` has been taken.
  void give_back(std::uint32_t slot);
  /// Posts what was given back, once that makes a list. errno, or 0.
  int flush(const VerbsLibrary& verbs, ibv_qp* pair);

  /// The credit for this piece. It may be overwritten kMaxPieces pieces later: by then the peer has had it.
  Message& credit(std::uint32_t piece) const { return slots()[kReceiveDepth + piece % kMaxPieces]; }
  /// There is one in the life of a link.
  Message& refusal() const { return slots()[kReceiveDepth + kMaxPieces]; }
  /// The eager message of this number, and the returns of that one. They may be overwritten when the peer has
  /// had as many as its window holds.
  EagerHeader& eager(std::uint32_t number) const {
    return *reinterpret_cast<EagerHeader*>(slots() + kFirstEager + number % kEagerWindow);
  }
  EagerHeader& returns(std::uint32_t number) const {
    return *reinterpret_cast<EagerHeader*>(slots() + kFirstEager + kEagerWindow + number % kMostReturns);
  }
  std::uint64_t receives() const { return receives_; }
  std::uint64_t doorbells() const { return doorbells_; }
  /// A message's first bytes, for the device.
  ibv_sge slice_of(const void* message, std::size_t bytes) const;

 private:
  static constexpr std::uint32_t kFirstEager = kReceiveDepth + kMaxPieces + 1;

  MessageBuffers(OwnMemory memory, std::uint32_t mark) : memory_(std::move(memory)), mark_(mark) {}
  Message* slots() const { return reinterpret_cast<Message*>(memory_.data()); }

  OwnMemory memory_;
  std::uint64_t mark_;
  std::array<std::uint32_t, kReceiveDepth> free_{};
  std::uint32_t free_count_ = 0;
  std::uint64_t receives_ = 0;   // posted
  std::uint64_t doorbells_ = 0;  // for them
};

}  // namespace rondel::verbs
