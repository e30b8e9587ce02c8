// SPDX-License-Identifier: Apache-2.0
// RankInput: the standard input of a rank whose launcher is elsewhere: a pipe into the rank, and what has
// arrived for it and not been taken yet, which is never more than kWindow. Owned by the agent, runs in its
// loop; one thread.
#pragma once

#include <functional>

#include "launcher/agent_protocol.h"
#include "launcher/event_loop.h"
#include "lib/memory.h"
#include "lib/status.h"
#include "lib/unique_fd.h"

namespace rondel {

class RankInput {
 public:
  static constexpr std::uint32_t kWindow = 256 * 1024;
  using Send = std::function<void(const agent::FromAgent& message)>;

  RankInput(EventLoop& loop, Send send) : loop_(loop), send_(std::move(send)) {}
  RankInput(const RankInput&) = delete;
  RankInput& operator=(const RankInput&) = delete;
  ~RankInput() { close(); }

  /// The reading end for the rank; asks the launcher for a first window.
  Result<UniqueFd> open();
  /// refused: more than was asked for.
  Status take(const Bytes& piece);
  /// Nothing more will come; the rank sees that once it has read the rest.
  void end();

 private:
  void flush();
  void close();

  EventLoop& loop_;
  Send send_;
  UniqueFd pipe_;
  Bytes unwritten_;
  bool watched_ = false;
  bool ended_ = false;
};

}  // namespace rondel
