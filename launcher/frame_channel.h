// SPDX-License-Identifier: Apache-2.0
// FrameChannel: frames over two byte streams, one in each direction (pipes, or both ends of one socket), in
// an event loop. Never blocks, except in flush_within(). Owned by whoever speaks over it; one thread. It
// knows no message, and bounds nothing that it is given to send: its users agree on room. They have SIGPIPE
// blocked.
#pragma once

#include <chrono>
#include <functional>
#include <optional>
#include <span>
#include <string>
#include <string_view>

#include "launcher/event_loop.h"
#include "launcher/preamble.h"
#include "lib/deadline.h"
#include "lib/frame.h"
#include "lib/memory.h"
#include "lib/status.h"
#include "lib/unique_fd.h"

namespace rondel {

class FrameChannel {
 public:
  using Use = std::function<Status(std::span<const std::byte> body)>;
  /// Called once, when the other side has closed its stream (ok) or what it sent can not be followed.
  using End = std::function<void(Status why)>;

  /// Takes over two descriptors, which must be two. With a `magic` everything before it is skipped.
  FrameChannel(EventLoop& loop, UniqueFd in, UniqueFd out, std::string_view magic = {});
  FrameChannel(const FrameChannel&) = delete;
  FrameChannel& operator=(const FrameChannel&) = delete;
  ~FrameChannel() { close(); }

  /// Begins to receive. `use` is called for each frame; after a failure of its own nothing more is received.
  Status open(Use use, End end);
  /// Queues bytes as they are, not as a frame.
  void send_raw(std::string_view bytes);
  /// Queues a frame; what the stream takes leaves at once. A broken stream shows by its other direction.
  void send(std::span<const std::byte> body);
  /// Sends what is queued, and blocks for it; false when that takes too long.
  bool flush_within(std::chrono::milliseconds limit);
  bool has_unsent() const { return sent_ < unsent_.size(); }
  bool is_open() const { return static_cast<bool>(in_); }
  /// Closes both streams; queued bytes are lost.
  void close();
  /// What came before the magic.
  std::string skipped() const { return preamble_ ? preamble_->skipped() : std::string(); }

 private:
  void receive();
  Status take(std::span<const std::byte> bytes);
  void finish(Status why);
  void flush();

  EventLoop& loop_;
  UniqueFd in_, out_;
  std::optional<Preamble> preamble_;
  bool in_preamble_ = false;
  Use use_;
  End end_;
  FrameReader reader_;
  Bytes unsent_;
  std::size_t sent_ = 0;
  bool awaits_room_ = false;
  bool broken_ = false;
};

}  // namespace rondel
