// SPDX-License-Identifier: Apache-2.0
// The two ends of the window of eager messages, which keeps the peer's posted receives from running out:
// EagerWindow counts what this side may still send, EagerInbox holds what has arrived until the work that it
// is for is posted, and knows when to tell the peer how many have been taken. Owned by the link; driver
// thread only.
#pragma once

#include <cstdint>

#include "transports/verbs/frame.h"
#include "transports/work_queue.h"

namespace rondel::verbs {

class EagerWindow {
 public:
  bool has_room() const { return sent_ - returned_ < kEagerWindow; }
  /// The number of the next message.
  std::uint32_t take() { return sent_++; }
  /// The peer has taken the first `total` messages. Ignores what can not be.
  void take_returned(std::uint32_t total) {
    if (total - returned_ <= sent_ - returned_) returned_ = total;
  }

 private:
  std::uint32_t sent_ = 0;
  std::uint32_t returned_ = 0;
};

class EagerInbox {
 public:
  bool empty() const { return slots_.empty(); }
  bool full() const { return slots_.room() == 0; }
  void hold(std::uint32_t slot) { slots_.push() = slot; }
  /// Where the oldest message lies.
  std::uint32_t front() const { return slots_.front(); }
  /// It has been taken.
  void pop() {
    slots_.pop();
    ++returned_;
  }

  /// Whether the peer may soon have to wait for word that nothing else carries.
  bool must_tell() const { return returned_ - told_ >= kEagerWindow / 2; }
  /// What to tell the peer in a message that leaves now.
  std::uint32_t tell() { return told_ = returned_; }

 private:
  WorkQueue<std::uint32_t, kEagerWindow> slots_;
  std::uint32_t returned_ = 0;
  std::uint32_t told_ = 0;
};

}  // namespace rondel::verbs
