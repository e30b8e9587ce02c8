// SPDX-License-Identifier: Apache-2.0
// Receiver: the works that a link receives. Those of few bytes come eagerly, in messages. Of the others it
// announces pieces to the peer with credits, and takes the pieces when they have been written: into their
// final place, or into a stage from which they are folded. Owned by the link; driver thread only.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <vector>

#include "lib/status.h"
#include "transports/endpoint.h"
#include "transports/sink.h"
#include "transports/verbs/eager_window.h"
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
  Receiver(std::shared_ptr<Device> device, Rank peer, SendQueue& requests, MessageBuffers& buffers,
           EagerInbox& inbox, LinkFault& fault)
      : device_(std::move(device)),
        peer_(peer),
        requests_(requests),
        buffers_(buffers),
        inbox_(inbox),
        fault_(fault) {}

  std::size_t room() const { return works_.room(); }
  bool empty() const { return works_.empty(); }
  void post(const Work& work);
  /// Collects all credits that can be sent now; false when the send queue was too full for one.
  bool announce();
  /// Collects word of receives that are free again, where the peer waits for it; false: see announce().
  bool tell_returned();
  /// Pieces come over several queue pairs, of which one may be ahead of another.
  void expect_stripes() { striped_ = true; }
  /// A piece has been written; returns how many works that finished.
  std::size_t take_piece(std::uint32_t number);
  /// An eager message has arrived in this slot, which is given back once its work has been posted.
  void hold(std::uint32_t slot);
  /// Whether a message that is held can be taken.
  bool can_take() const { return !inbox_.empty() && !works_.empty() && (!striped_ || !comes_too_early()); }
  /// Takes all of those, and pieces that waited for them; returns how many works that finished.
  std::size_t take_held();
  /// The peer has another work than this rank expects.
  void take_refusal(const MessageHeader& header);
  /// Both sides' labels and lengths, once the fault is a mismatch.
  const LabelMismatch& mismatch() const { return mismatch_; }
  /// The number of the work that is due, when it is to come eagerly.
  std::optional<std::uint32_t> due_eagerly() const;
  void fail_all(Code why);
  std::uint64_t bytes_received() const { return bytes_received_; }
  /// Of them, what the processor moved: folded from stages, or taken out of messages.
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

  bool comes_too_early() const;
  bool is_here(std::uint32_t piece) const { return (here_ >> piece % kMaxPieces & 1) != 0; }
  std::size_t take_pieces();
  bool take_due_piece();
  std::optional<Piece> next_piece_of(const Incoming& in);
  void send_credit(const Incoming& in, const Piece& piece);
  std::uint32_t number_of(std::size_t work) const {
    return works_finished_ + static_cast<std::uint32_t>(work);
  }
  bool take_message(const EagerHeader& header, std::span<const std::byte> payload);
  void fail_by_mismatch(const Label& theirs, std::uint64_t their_bytes);
  void finish_front();

  const std::shared_ptr<Device> device_;
  const Rank peer_;
  SendQueue& requests_;
  MessageBuffers& buffers_;
  EagerInbox& inbox_;
  LinkFault& fault_;
  Stages stages_;
  WorkQueue<Incoming> works_;
  std::size_t works_announced_ = 0;  // of those in front; what comes eagerly needs nothing
  std::uint32_t works_finished_ = 0;
  WorkQueue<Piece, kMaxPieces> pieces_;
  std::uint32_t pieces_announced_ = 0;
  std::uint32_t pieces_received_ = 0;
  std::uint32_t here_ = 0;  // pieces that have been written, by number
  static_assert(kMaxPieces <= 32);
  bool striped_ = false;
  std::optional<MessageHeader> refusal_;  // of a work that is not due yet
  std::uint32_t returns_ = 0;             // messages of this kind
  LabelMismatch mismatch_;
  std::uint64_t bytes_received_ = 0;
  std::uint64_t bytes_staged_ = 0;
};

}  // namespace rondel::verbs
