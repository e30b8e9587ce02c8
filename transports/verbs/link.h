// SPDX-License-Identifier: Apache-2.0
// Link: the queue pair to one peer, with the works that it sends and those that it receives. The socket over
// which the two met stays open and tells when the peer goes. Owned by the endpoint; driver thread only. It
// never waits.
#pragma once

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>

#include "lib/deadline.h"
#include "lib/private_fd.h"
#include "lib/status.h"
#include "transports/endpoint.h"
#include "transports/verbs/eager_window.h"
#include "transports/verbs/fault.h"
#include "transports/verbs/link_counts.h"
#include "transports/verbs/link_words.h"
#include "transports/verbs/message_buffers.h"
#include "transports/verbs/queue_pair.h"
#include "transports/verbs/receiver.h"
#include "transports/verbs/send_queue.h"
#include "transports/verbs/sender.h"
#include "transports/verbs/stripe.h"

namespace rondel::verbs {

class Link {
 public:
  /// Locked by a link from its first reduction on.
  static constexpr std::size_t kLockedBytes = MessageBuffers::kBytes + Stages::kCount * Stages::kBytes;

  /// A link that is not connected yet, with its receives posted. `mark` comes back in every completion's
  /// number, in its upper half. `pairs`: queue pairs, as far as the device has them and the peer too.
  static Result<std::unique_ptr<Link>> create(const std::shared_ptr<Device>& device,
                                              const CompletionQueues& queues, Rank peer, std::uint32_t mark,
                                              std::uint32_t pairs);

  Rank peer() const { return peer_; }
  std::uint32_t mark() const { return mark_; }
  PairOffer offer() const;
  Status bring_up(const PairOffer& theirs, PairPatience patience);
  /// Works may be posted from now on.
  void connected(UniqueFd socket) {
    socket_ = PrivateFd(std::move(socket));
    connected_ = true;
  }
  bool is_connected() const { return connected_; }

  std::size_t room_for(Verb verb) const { return verb == Verb::send ? sender_.room() : receiver_.room(); }
  void post(const Work& work) {
    if (!has_works()) ++stirs_;
    work.verb == Verb::send ? sender_.post(work) : receiver_.post(work);
  }
  bool has_works() const { return !sender_.empty() || !receiver_.empty(); }
  /// Whether the end of something that was sent is news.
  bool awaits_departures() const { return sender_.awaits_departures() || blocked_ || flushed_; }
  /// Whether something that was sent may still fail, which only its completion tells.
  bool may_fail() const { return any_of_queues(is_busy); }
  /// Whether it is time to see what was sent, so that room never runs out.
  bool wants_room() const {
    return any_of_queues([](const SendQueue& queue) { return queue.room() < queue.depth() / 2; });
  }

  /// Hands the device all that can be handed to it now: receives, credits, writes, eager messages.
  void pump();
  /// Whether a receive is posted for an eager message that came before it.
  bool can_take() const { return !faulty() && receiver_.can_take(); }
  /// Whether works can finish without any completion.
  bool can_finish() const { return can_take() || (!faulty() && sender_.can_finish()); }
  /// Takes eager messages that came before their receive was posted; returns how many works that finished.
  std::size_t take_held() { return faulty() ? 0 : receiver_.take_held(); }
  /// Finishes sends that went eagerly.
  std::size_t finish_sent() { return faulty() ? 0 : sender_.finish_done(); }
  /// Take one completion; return how many works that finished.
  std::size_t arrived(const ibv_wc& completion);
  std::size_t departed(const ibv_wc& completion);

  /// The work that is due comes eagerly or never, and the peer has not been asked which.
  bool has_question() const {
    const auto due = receiver_.due_eagerly();
    return due && due != asked_ && connected_ && !gone_ && !faulty();
  }
  /// Asks, when the work has been due for `patience`.
  void ask(Deadline::Clock::time_point now, std::chrono::nanoseconds patience);

  /// Writes nothing to the peer, when nothing has come from it for `patience` while works wait: that fails
  /// where the way is cut, or the peer's pair has broken and its rank does not look.
  void try_way(Deadline::Clock::time_point now, std::chrono::nanoseconds patience);

  /// Asks for a completion behind all that went eagerly, unless that is known to have arrived.
  void prove_arrival();
  /// What went eagerly may not have arrived yet, and may still do so.
  bool owes_arrival() const {
    return !faulty() && !flushed_ && !settled_ && sender_.last_eager_request() > requests_.completed();
  }

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

  bool faulty() const { return fault_.is_set(); }
  const LinkFault& fault() const { return fault_; }
  const LabelMismatch& mismatch() const { return receiver_.mismatch(); }
  LinkCounts counts() const;
  std::uint64_t bytes_sent() const { return sender_.bytes_sent(); }
  std::uint64_t bytes_received() const { return receiver_.bytes_received(); }

  /// Tells the peer, destroys the queue pair and finishes every posted work with `why`: the device touches
  /// none of their memory any more.
  void close(Code why);

 private:
  Link(std::shared_ptr<Device> device, QueuePair pair, MessageBuffers buffers, Rank peer, std::uint32_t mark);

  void take_message(const ibv_wc& completion, std::uint32_t slot);
  void take_eager(const ibv_wc& completion, std::uint32_t slot);
  std::size_t take_striped(const ibv_wc& completion, std::uint32_t index);
  void take_failure(ibv_wc_status status);
  void write_nothing(SendQueue& queue);
  void flush_stripes();
  void destroy_pairs();
  static bool is_busy(const SendQueue& queue) { return queue.posted() > queue.completed(); }
  template <class Predicate>
  bool any_of_queues(Predicate holds) const {
    if (holds(requests_)) return true;
    for (const auto& stripe : stripes_)
      if (holds(stripe->requests())) return true;
    return false;
  }

  const std::shared_ptr<Device> device_;
  const Rank peer_;
  const std::uint32_t mark_;
  MessageBuffers buffers_;
  QueuePair pair_;
  SendQueue requests_;
  std::vector<std::unique_ptr<Stripe>> stripes_;  // further queue pairs
  EagerInbox inbox_;
  LinkFault fault_;
  Sender sender_;
  Receiver receiver_;
  PrivateFd socket_;
  bool connected_ = false;
  bool blocked_ = false;  // by the room in the send queue
  bool flushed_ = false;
  bool gone_ = false;
  bool settled_ = false;
  LinkWord last_word_;                  // of the peer, once it has gone
  std::optional<std::uint32_t> due_;    // eagerly, when it was looked at last
  std::optional<std::uint32_t> asked_;  // of the peer
  Deadline::Clock::time_point due_since_{};
  std::uint64_t stirs_ = 0;       // what has come, and each first work that waits
  std::uint64_t stirs_seen_ = 0;  // when the way was looked at last
  Deadline::Clock::time_point quiet_since_{};
};

}  // namespace rondel::verbs
