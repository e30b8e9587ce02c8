// SPDX-License-Identifier: Apache-2.0
// Link: the queue pair to one peer, its works in both directions, and the state machine that moves them:
// credits for what is to be received, writes for what is to be sent. The socket over which the two met stays
// open and tells when the peer goes. Owned by the endpoint; driver thread only. It never waits.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "lib/private_fd.h"
#include "lib/status.h"
#include "transports/endpoint.h"
#include "transports/sink.h"
#include "transports/verbs/frame.h"
#include "transports/verbs/message_buffers.h"
#include "transports/verbs/queue_pair.h"
#include "transports/verbs/send_queue.h"
#include "transports/verbs/stages.h"
#include "transports/work_queue.h"

namespace rondel::verbs {

/// A failure of one link; the endpoint turns it into the sentence with rank and host.
struct LinkFault {
  Code code = Code::ok;
  std::string text;
  std::string hint;
};

class Link {
 public:
  /// A link that is not connected yet, with its receives posted. `mark` comes back in every completion's
  /// number, in its upper half.
  static Result<std::unique_ptr<Link>> create(std::shared_ptr<Device> device, const CompletionQueues& queues,
                                              Rank peer, std::uint32_t mark);

  Rank peer() const { return peer_; }
  std::uint32_t mark() const { return mark_; }
  const PairOffer& offer() const { return pair_.offer(); }
  Status bring_up(const PairOffer& theirs, PairPatience patience) { return pair_.bring_up(theirs, patience); }
  /// Works may be posted from now on.
  void connected(UniqueFd socket) {
    socket_ = PrivateFd(std::move(socket));
    connected_ = true;
  }
  bool is_connected() const { return connected_; }

  std::size_t room_for(Verb verb) const { return verb == Verb::send ? sends_.room() : receives_.room(); }
  void post(const Work& work);
  bool has_works() const { return !sends_.empty() || !receives_.empty(); }
  /// Whether the end of something that was sent is news.
  bool awaits_departures() const { return !sends_.empty() || blocked_ || flushed_; }
  /// Whether it is time to see what was sent, so that room never runs out.
  bool wants_room() const { return requests_.room() < requests_.depth() / 2; }

  /// Hands the device all that can be handed to it now: receives, credits, writes.
  void pump();
  /// Take one completion; return how many works that finished.
  std::size_t arrived(const ibv_wc& completion);
  std::size_t departed(const ibv_wc& completion);

  int socket() const { return socket_.get(); }
  std::uint32_t watched_events = 0;  ///< what epoll is watching the socket for
  /// Reads what the peer says on the socket: nothing, or that it goes. True when it has gone, now or before.
  bool peer_has_gone();
  /// To be called when it has gone and all that arrived is taken: works that it has had finish, and what is
  /// left is a fault. Returns how many works finished.
  std::size_t settle_departure();
  bool settled() const { return settled_; }
  /// To be called when nothing more completes: requests that were flushed with no failure before them are
  /// one.
  void judge_flush();

  bool faulty() const { return fault_.code != Code::ok; }
  const LinkFault& fault() const { return fault_; }
  const LabelMismatch& mismatch() const { return mismatch_; }
  std::uint64_t bytes_sent() const { return bytes_sent_; }
  std::uint64_t bytes_received() const { return bytes_received_; }

  /// Tells the peer, destroys the queue pair and finishes every posted work with `why`: the device touches
  /// none of their memory any more.
  void close(Code why);

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
  struct Incoming {
    Sink sink;
    std::vector<Slice> slices;
    std::uint64_t announced_bytes = 0;
    bool all_announced = false;
  };
  struct Credit {
    MessageHeader header;
    std::vector<RemoteRange> ranges;
    std::size_t range = 0;  // from here the next bytes are written
    std::uint64_t range_offset = 0;
    std::uint64_t written_bytes = 0;
  };
  struct Piece {
    std::uint64_t bytes = 0;
    std::optional<std::uint32_t> stage;  // none: in place
  };

  Link(std::shared_ptr<Device> device, QueuePair pair, MessageBuffers buffers, Rank peer, std::uint32_t mark);

  void announce();
  bool announce_piece_of(Incoming& incoming);
  void send_credit(const Incoming& incoming, const Piece& piece);
  void write();
  bool matches(const Outgoing& out, const Credit& credit);
  bool write_piece(Outgoing& out, Credit& credit);
  void write_request(Outgoing& out, Credit& credit);
  void refuse(const Outgoing& out, const Credit& credit);
  std::size_t take_piece(std::uint32_t number);
  void take_message(const ibv_wc& completion);
  void take_credit(const Message& message);
  void take_refusal(const MessageHeader& header);
  std::size_t finish_sends();
  void take_failure(ibv_wc_status status);
  void stop(Code code, std::string text, std::string hint = {});

  const std::shared_ptr<Device> device_;
  const Rank peer_;
  const std::uint32_t mark_;
  MessageBuffers buffers_;
  Stages stages_;
  QueuePair pair_;
  SendQueue requests_;
  PrivateFd socket_;
  bool connected_ = false;

  WorkQueue<Outgoing> sends_;
  std::size_t sends_written_ = 0;  // of the works in front, all of whose requests are posted
  WorkQueue<Credit, kMaxPieces> credits_;
  std::uint32_t pieces_written_ = 0;
  bool blocked_ = false;  // by the room in the send queue
  bool refused_ = false;  // a mismatch was told: nothing more is sent

  WorkQueue<Incoming> receives_;
  std::size_t receives_announced_ = 0;  // of the works in front
  WorkQueue<Piece, kMaxPieces> pieces_;
  std::uint32_t pieces_announced_ = 0;
  std::uint32_t pieces_received_ = 0;

  bool gone_ = false;
  bool flushed_ = false;
  bool settled_ = false;
  std::uint32_t peer_has_had_ = 0;  // pieces, by its last word
  std::string why_gone_;
  std::uint64_t bytes_sent_ = 0;
  std::uint64_t bytes_received_ = 0;
  LinkFault fault_;
  LabelMismatch mismatch_;
};

}  // namespace rondel::verbs
