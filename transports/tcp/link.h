// SPDX-License-Identifier: Apache-2.0
// Link: the connection to one peer, its works in both directions, and the state machine that moves them with
// non-blocking sendmsg and recvmsg. Owned by the endpoint; driver thread only. It never waits.
#pragma once

#include <sys/uio.h>

#include <array>
#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

#include "lib/private_fd.h"
#include "lib/status.h"
#include "transports/endpoint.h"
#include "transports/sink.h"
#include "transports/tcp/frame.h"
#include "transports/work_queue.h"

namespace rondel::tcp {

/// What a turn of a link did.
struct Turn {
  bool moved = false;        // some bytes went in or out
  std::size_t finished = 0;  // works finished
};

/// A failure of one link; the endpoint turns it into the sentence with rank and host.
struct LinkFault {
  Code code = Code::ok;
  int error_number = 0;  // of the system call; 0: closed by the peer, or see `text`
  std::string text;
};

class Link {
 public:
  /// `stage` is the endpoint's scratch for incoming bytes that are folded; outlives the link.
  Link(Rank peer, UniqueFd socket, std::span<std::byte> stage);

  Rank peer() const { return peer_; }
  int socket() const { return socket_.get(); }

  /// How many more works of this verb's direction can be posted.
  std::size_t room_for(Verb verb) const { return verb == Verb::send ? sends_.room() : receives_.room(); }
  void post(const Work& work);

  bool wants_to_send() const { return !sends_.empty(); }
  bool wants_to_receive() const { return !receives_.empty(); }
  /// Whether bytes that were read ahead are for a posted work: the socket does not tell of them.
  bool can_go_on_without_reading() const;

  Turn send_some();
  Turn receive_some();

  bool faulty() const { return fault_.code != Code::ok; }
  const LinkFault& fault() const { return fault_; }
  const LabelMismatch& mismatch() const { return mismatch_; }
  std::uint64_t bytes_sent() const { return bytes_sent_; }
  std::uint64_t bytes_received() const { return bytes_received_; }

  /// Finishes every posted work with `why` and closes the socket.
  std::size_t fail_all(Code why);

  /// What epoll is watching for; kept here so that it changes only when it must.
  std::uint32_t watched_events = 0;

 private:
  struct Outgoing {
    FrameHeader header;
    std::size_t header_sent = 0;
    std::vector<Slice> slices;  // their room is kept for the next work
    SliceCursor payload{std::span<const Slice>()};
    std::uint64_t missing_bytes = 0;
    Completion* done = nullptr;
  };

  std::size_t gather(std::span<iovec> pieces) const;
  std::size_t account_sent(std::size_t bytes);
  bool accept_frames(Turn& turn);
  bool accept_header();
  void feed_sink_from_cache();
  std::size_t read_more();
  void stop(Code code, int error_number, std::string text = {});

  const Rank peer_;
  PrivateFd socket_;
  std::span<std::byte> stage_;
  WorkQueue<Outgoing> sends_;
  WorkQueue<Sink> receives_;
  std::uint32_t send_sequence_ = 0;
  std::uint32_t receive_sequence_ = 0;
  bool in_payload_ = false;  // the header of receives_.front() has been accepted

  // Bytes read ahead of need: a header, and the start of what follows it.
  static constexpr std::size_t kCacheBytes = 4096 + kHeaderBytes;
  std::array<std::byte, kCacheBytes> cache_;
  std::size_t cache_begin_ = 0;
  std::size_t cache_end_ = 0;

  std::uint64_t bytes_sent_ = 0;
  std::uint64_t bytes_received_ = 0;
  LinkFault fault_;
  LabelMismatch mismatch_;
};

}  // namespace rondel::tcp
