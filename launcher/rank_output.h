// SPDX-License-Identifier: Apache-2.0
// RankOutput: reads what the ranks of one host write and sends it to the launcher, no more than the launcher
// has room for: while it has none, the pipes are left unread, and in the end the ranks wait. Owned by the
// agent, runs in its loop; one thread. It looks at no byte of the output.
#pragma once

#include <array>
#include <chrono>
#include <functional>
#include <memory>
#include <vector>

#include "launcher/agent_protocol.h"
#include "launcher/event_loop.h"
#include "lib/unique_fd.h"

namespace rondel {

class RankOutput {
 public:
  using Send = std::function<void(const agent::FromAgent& message)>;

  RankOutput(EventLoop& loop, Send send) : loop_(loop), send_(std::move(send)), buffer_(agent::kPieceBytes) {}
  RankOutput(const RankOutput&) = delete;
  RankOutput& operator=(const RankOutput&) = delete;
  ~RankOutput() { discard(); }

  /// Takes over one stream of one rank: the reading end of a non-blocking pipe.
  Status add(Rank rank, agent::Stream stream, UniqueFd pipe);
  /// So many more bytes of that stream, of whichever rank, may be sent.
  void grant(agent::Stream stream, std::size_t bytes);
  bool streams_open() const;
  /// Ends streams that somebody outside the job holds open: nothing has come for `silence`, nothing is held
  /// back, and nothing is there to be read.
  void close_silent_streams(std::chrono::milliseconds silence);
  /// Closes everything: nobody wants it any more.
  void discard();

 private:
  struct Source {
    Rank rank;
    agent::Stream stream;
    UniqueFd pipe;
    bool held = false;  // not read, because there is no room
  };
  std::size_t& room_for(const Source& source) { return room_[static_cast<std::size_t>(source.stream)]; }
  Status watch(Source& source);
  void read_from(Source& source);
  void end(Source& source);

  EventLoop& loop_;
  Send send_;
  std::vector<std::byte> buffer_;
  std::vector<std::unique_ptr<Source>> sources_;
  std::array<std::size_t, agent::kStreams> room_{};
  std::chrono::steady_clock::time_point last_read_ = std::chrono::steady_clock::now();
};

}  // namespace rondel
