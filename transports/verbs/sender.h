// SPDX-License-Identifier: Apache-2.0
// Sender: the works that a link sends. Those of few bytes leave at once, in a message. Of the others each
// piece waits for a credit of the peer, which is compared with the work that it should be for; then it is
// written where the credit says. Owned by the link; driver thread only.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <vector>

#include "lib/status.h"
#include "transports/verbs/eager_window.h"
#include "transports/verbs/fault.h"
#include "transports/verbs/frame.h"
#include "transports/verbs/message_buffers.h"
#include "transports/verbs/send_queue.h"
#include "transports/work.h"
#include "transports/work_queue.h"

namespace rondel::verbs {

class Sender {
 public:
  /// `most_bytes`: of a request. The others belong to the link.
  Sender(SendQueue& requests, MessageBuffers& buffers, EagerInbox& inbox, LinkFault& fault,
         std::size_t most_bytes)
      : requests_(requests),
        queues_{&requests},
        buffers_(buffers),
        inbox_(inbox),
        fault_(fault),
        most_bytes_(most_bytes) {}

  std::size_t room() const { return works_.room(); }
  bool empty() const { return works_.empty(); }
  /// Whether works are posted that end with a completion of the device.
  bool awaits_departures() const { return written_works_ > 0; }
  /// Whether a work can finish without one.
  bool can_finish() const { return works_sent_ > 0 && goes_eagerly(works_.front().total_bytes); }
  void post(const Work& work);
  void take_credit(const Message& message);
  /// The peer has posted the receives of its first `total` eager messages again.
  void take_returned(std::uint32_t total) { window_.take_returned(total); }
  /// The peer has waited long for the work of this number, and expects it to come eagerly.
  void take_question(std::uint32_t work) {
    if (static_cast<std::int32_t>(work - number_of_next()) >= 0) asked_ = work;
  }
  /// Pieces go over these queues in turn; the first is the link's own.
  void write_over(std::span<SendQueue* const> queues) { queues_.assign(queues.begin(), queues.end()); }
  /// Collects all requests that can be made now; false when the send queue was too full for one.
  bool write();
  /// Finishes the works whose requests are done; returns how many.
  std::size_t finish_done();
  /// Finishes the works of which the peer has had all of the first `pieces` pieces' bytes.
  std::size_t finish_had(std::uint32_t pieces);
  void fail_all(Code why);
  std::uint64_t bytes_sent() const { return bytes_sent_; }
  std::uint64_t eager_sent() const { return eager_sent_; }
  /// The request of the last work that went eagerly; 0: none did.
  std::uint64_t last_eager_request() const { return last_eager_request_; }

 private:
  struct Outgoing {
    std::vector<Slice> slices;  // their room is kept for the next work
    std::size_t slice = 0;      // from here the next bytes are written
    std::size_t slice_offset = 0;
    std::uint64_t total_bytes = 0;
    std::uint64_t written_bytes = 0;
    std::array<std::uint64_t, kMostPairs> last_requests{};  // by queue
    std::uint32_t last_piece = 0;
    Label label;
    Completion* done = nullptr;
  };
  struct Credit {
    MessageHeader header;
    std::vector<RemoteRange> ranges;
    std::size_t range = 0;  // from here the next bytes are written
    std::uint64_t range_offset = 0;
    std::uint64_t written_bytes = 0;
  };

  enum class Step : std::uint8_t { moved, waits, full };  // full: the send queue is

  std::uint32_t number_of_next() const { return works_finished_ + static_cast<std::uint32_t>(works_sent_); }
  Step send_eagerly(const Outgoing& out);
  Step write_next_piece(Outgoing& out);
  bool matches(const Outgoing& out, const Credit& credit);
  bool write_piece(Outgoing& out, Credit& credit);
  /// The index of the queue over which the piece goes.
  std::size_t queue_of(const Credit& credit) const {
    return queues_.size() == 1 ? 0 : credit.header.piece % queues_.size();
  }
  void write_request(Outgoing& out, Credit& credit, std::size_t index);
  std::size_t gather(Outgoing& out, std::uint64_t limit, std::span<ibv_sge> from, std::uint64_t& bytes) const;
  bool is_done(const Outgoing& out) const;
  void refuse(const Outgoing& out);
  void finish_front();

  SendQueue& requests_;  // messages
  std::vector<SendQueue*> queues_;
  MessageBuffers& buffers_;
  EagerInbox& inbox_;
  LinkFault& fault_;
  const std::size_t most_bytes_;
  EagerWindow window_;
  WorkQueue<Outgoing> works_;
  std::size_t works_sent_ = 0;     // of those in front, all of whose requests are made
  std::size_t written_works_ = 0;  // of all, those that do not go eagerly
  std::uint32_t works_finished_ = 0;
  std::optional<std::uint32_t> asked_;  // the peer expects this work to come eagerly
  std::uint64_t last_eager_request_ = 0;
  std::uint64_t eager_sent_ = 0;  // the window's numbers begin again after 2^32
  WorkQueue<Credit, kMaxPieces> credits_;
  std::uint32_t pieces_written_ = 0;
  bool refused_ = false;  // a mismatch was told: nothing more is sent
  std::uint64_t bytes_sent_ = 0;
};

}  // namespace rondel::verbs
