// SPDX-License-Identifier: Apache-2.0
#include "lib/private_fd.h"

#include <pthread.h>

#include <array>
#include <atomic>

namespace rondel {
namespace {

// A child of fork may call only what a signal handler may: so no list that allocates or locks.
using Slots = std::array<std::atomic<int>, 16'384>;

/// Zero-initialized, so there before any constructor: a slot holds the descriptor plus one.
Slots slots;

void close_in_child() {
  for (std::atomic<int>& slot : slots) {
    const int fd = slot.exchange(0, std::memory_order_relaxed) - 1;
    if (fd >= 0) ::close(fd);
  }
}

/// The slot that now holds `fd`; -1 when all are taken.
int enlist(int fd) {
  static const bool prepared = ::pthread_atfork(nullptr, nullptr, close_in_child) == 0;
  static std::atomic<unsigned> hint{0};  // where a free slot is likely; any value is right
  if (!prepared) return -1;
  const unsigned first = hint.fetch_add(1, std::memory_order_relaxed);
  for (unsigned i = 0; i < slots.size(); ++i) {
    const auto index = (first + i) % slots.size();
    int free = 0;
    if (slots[index].compare_exchange_strong(free, fd + 1, std::memory_order_relaxed))
      return static_cast<int>(index);
  }
  return -1;
}

}  // namespace

PrivateFd::PrivateFd(UniqueFd fd) : fd_(std::move(fd)), slot_(fd_ ? enlist(fd_.get()) : -1) {}

PrivateFd& PrivateFd::operator=(PrivateFd&& other) noexcept {
  if (this != &other) {
    reset();
    fd_ = std::move(other.fd_);
    slot_ = std::exchange(other.slot_, -1);
  }
  return *this;
}

void PrivateFd::reset() {
  // Off the list before it is closed: its number may be another file's a moment later.
  const int slot = std::exchange(slot_, -1);
  const bool listed =
      slot < 0 || slots[static_cast<std::size_t>(slot)].exchange(0, std::memory_order_relaxed) != 0;
  if (!listed) static_cast<void>(fd_.release());  // in a child, where it is closed already
  fd_.reset();
}

}  // namespace rondel
