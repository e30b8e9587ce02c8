// SPDX-License-Identifier: Apache-2.0
// Inbox: how the listener's thread hands connected sockets, or the news that a peer can not be reached, to
// the driver thread of an endpoint. A lock-free stack that the driver empties whole, and an eventfd that
// wakes it.
#pragma once

#include <poll.h>
#include <sys/eventfd.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <chrono>
#include <cstdint>
#include <memory>
#include <vector>

#include "lib/status.h"
#include "lib/unique_fd.h"

namespace rondel::tcp {

/// A socket that has passed the handshake, or why a dial has not succeeded so far.
struct Arrival {
  Rank peer = kNoRank;
  UniqueFd socket;
  Status status;
};

class Inbox {
 public:
  Inbox() : wake_(::eventfd(0, EFD_NONBLOCK | EFD_CLOEXEC)) {}
  Inbox(const Inbox&) = delete;
  Inbox& operator=(const Inbox&) = delete;
  ~Inbox() { take_all(); }

  /// Readable when something has arrived; invalid when descriptors ran out.
  int wake_descriptor() const { return wake_.get(); }

  /// Any thread. The release pairs with the acquire in take_all().
  void push(Arrival arrival) {
    auto* node = new Node{std::move(arrival), head_.load(std::memory_order_relaxed)};
    while (!head_.compare_exchange_weak(node->next, node, std::memory_order_release,
                                        std::memory_order_relaxed)) {
    }
    const std::uint64_t one = 1;
    [[maybe_unused]] const ssize_t written = ::write(wake_.get(), &one, sizeof one);
  }

  /// Driver thread. Whether take_all() would find something; a hint that costs one relaxed load.
  bool may_hold_something() const { return head_.load(std::memory_order_relaxed) != nullptr; }

  /// Driver thread. Waits until something has arrived or the time is over; woken by nothing else.
  void wait(std::chrono::milliseconds at_most) {
    pollfd woken{wake_.get(), POLLIN, 0};
    ::poll(&woken, 1, static_cast<int>(at_most.count()));
  }

  /// Driver thread. Everything that has arrived, oldest first. Taking the whole stack leaves no room for ABA.
  std::vector<Arrival> take_all() {
    std::uint64_t count = 0;
    [[maybe_unused]] const ssize_t drained = ::read(wake_.get(), &count, sizeof count);
    std::vector<Arrival> arrivals;
    Node* node = head_.exchange(nullptr, std::memory_order_acquire);
    while (node != nullptr) {
      const std::unique_ptr<Node> owned(node);
      node = owned->next;
      arrivals.push_back(std::move(owned->arrival));
    }
    std::reverse(arrivals.begin(), arrivals.end());
    return arrivals;
  }

 private:
  struct Node {
    Arrival arrival;
    Node* next;
  };
  std::atomic<Node*> head_{nullptr};
  UniqueFd wake_;
};

}  // namespace rondel::tcp
