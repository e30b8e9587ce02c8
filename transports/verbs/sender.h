// SPDX-License-Identifier: Apache-2.0
// Sender: the works that a link sends. Each credit of the peer is compared with the work that it should be
// for, and then that piece is written where the credit says. Owned by the link; driver thread only.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include "lib/status.h"
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
  Sender(SendQueue& requests, MessageBuffers& buffers, LinkFault& fault, std::size_t most_bytes)
      : requests_(requests), buffers_(buffers), fault_(fault), most_bytes_(most_bytes) {}

  std::size_t room() const { return works_.room(); }
  bool empty() const { return works_.empty(); }
  void post(const Work& work);
  void take_credit(const Message& message);
  /// Collects all requests that can be made now; false when the send queue was too full for one.
  bool write();
  /// Finishes the works whose requests are done; returns how many.
  std::size_t finish_done();
  /// Finishes the works of which the peer has had all of the first `pieces` pieces' bytes.
  std::size_t finish_had(std::uint32_t pieces);
  void fail_all(Code why);
  std::uint64_t bytes_sent() const { return bytes_sent_; }

 private:
  struct Outgoing {
    std::vector<Slice> slices;  // their room is kept for the next work
    std::size_t slice = 0;      // from here the next bytes are written
    std::size_t slice_offset = 0;
    std::uint64_t total_bytes = 0;
    std::uint64_t written_bytes = 0;
    std::uint64_t last_request = 0;  // of the send queue, once all is written
    std::uint32_t last_piece = 0;
    bool all_written = false;
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

  bool matches(const Outgoing& out, const Credit& credit);
  bool write_piece(Outgoing& out, Credit& credit);
  void write_request(Outgoing& out, Credit& credit);
  std::size_t gather(Outgoing& out, std::uint64_t limit, std::span<ibv_sge> from, std::uint64_t& bytes) const;
  void refuse(const Outgoing& out, const Credit& credit);
  void finish_front();

  SendQueue& requests_;
  MessageBuffers& buffers_;
  LinkFault& fault_;
  const std::size_t most_bytes_;
  WorkQueue<Outgoing> works_;
  std::size_t works_written_ = 0;  // of those in front, all of whose requests are made
  WorkQueue<Credit, kMaxPieces> credits_;
  std::uint32_t pieces_written_ = 0;
  bool refused_ = false;  // a mismatch was told: nothing more is sent
  std::uint64_t bytes_sent_ = 0;
};

}  // namespace rondel::verbs
