// SPDX-License-Identifier: Apache-2.0
// A fixed ring of works in flight in one direction of a link. Entries are reused, so that the room inside
// them is kept and nothing is allocated on the steady path. Driver thread only.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>

#include "lib/check.h"

namespace rondel {

inline constexpr std::uint32_t kMaxInFlight = 16;

template <class Entry, std::uint32_t kRoom = kMaxInFlight>
class WorkQueue {
 public:
  bool empty() const { return count_ == 0; }
  std::size_t room() const { return kRoom - count_; }
  std::size_t size() const { return count_; }

  Entry& front() { return entries_[first_]; }
  const Entry& front() const { return entries_[first_]; }
  Entry& at(std::size_t index) { return entries_[(first_ + index) % kRoom]; }
  const Entry& at(std::size_t index) const { return entries_[(first_ + index) % kRoom]; }

  Entry& push() {
    check(room() > 0, "no more than max_in_flight works are posted");
    return entries_[(first_ + count_++) % kRoom];
  }
  void pop() {
    first_ = (first_ + 1) % kRoom;
    --count_;
  }

 private:
  std::array<Entry, kRoom> entries_;
  std::uint32_t first_ = 0;
  std::uint32_t count_ = 0;
};

}  // namespace rondel
