// SPDX-License-Identifier: Apache-2.0
// Receiver: the works that a link receives. Announces pieces of them to the peer with credits, and takes the
// pieces when they have been written: into their final place, or into a stage from which they are folded.
// Owned by the link; driver thread only.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <vector>

#include "lib/status.h"
#include "transports/endpoint.h"
#include "transports/sink.h"
#include "transports/verbs/fault.h"
#include "transports/verbs/frame.h"
#include "transports/verbs/message_buffers.h"
#include "transports/verbs/send_queue.h"
#include "transports/verbs/stages.h"
#include "transports/work_queue.h"

namespace rondel::verbs {

class Receiver {
 public:
  /// All but the device belong to the link.
  Receiver(std::shared_ptr<Device> device, SendQueue& requests, MessageBuffers& buffers, LinkFault& fault)
      : device_(std::move(device)), requests_(requests), buffers_(buffers), fault_(fault) {}

  std::size_t room() const { return works_.room(); }
  bool empty() const { return works_.empty(); }
  void post(const Work& work);
  /// Collects all credits that can be sent now; false when the send queue was too full for one.
  bool announce();
  /// A piece has been written; returns how many works that finished.
  std::size_t take_piece(std::uint32_t number);
  /// The peer has another work than this rank expects.
  LabelMismatch take_refusal(const MessageHeader& header, Rank peer);
  void fail_all(Code why);
  std::uint64_t bytes_received() const { return bytes_received_; }
  /// Of them, what was folded from stages.
  std::uint64_t bytes_staged() const { return bytes_staged_; }
  std::uint32_t pieces_received() const { return pieces_received_; }

 private:
  struct Incoming {
    Sink sink;
    std::vector<Slice> slices;
    std::uint64_t announced_bytes = 0;
    bool all_announced = false;
  };
  struct Piece {
    std::uint64_t bytes = 0;
    std::optional<std::uint32_t> stage;  // none: in place
  };

  std::optional<Piece> next_piece_of(const Incoming& in);
  void send_credit(const Incoming& in, const Piece& piece);

  const std::shared_ptr<Device> device_;
  SendQueue& requests_;
  MessageBuffers& buffers_;
  LinkFault& fault_;
  Stages stages_;
  WorkQueue<Incoming> works_;
  std::size_t works_announced_ = 0;  // of those in front
  WorkQueue<Piece, kMaxPieces> pieces_;
  std::uint32_t pieces_announced_ = 0;
  std::uint32_t pieces_received_ = 0;
  std::uint64_t bytes_received_ = 0;
  std::uint64_t bytes_staged_ = 0;
};

}  // namespace rondel::verbs
