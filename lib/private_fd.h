// SPDX-License-Identifier: Apache-2.0
// PrivateFd: a descriptor that no forked child keeps. A connection ends for its peer only when the last copy
// of it is closed: a data loader's worker, forked from a rank and outliving it, would hide that rank's death.
// Closed in the child by pthread_atfork; close-on-exec is no help to a child that never execs. Not shared
// between threads.
#pragma once

#include <utility>

#include "lib/unique_fd.h"

namespace rondel {

class PrivateFd {
 public:
  PrivateFd() = default;
  explicit PrivateFd(UniqueFd fd);
  PrivateFd(PrivateFd&& other) noexcept : fd_(std::move(other.fd_)), slot_(std::exchange(other.slot_, -1)) {}
  PrivateFd& operator=(PrivateFd&& other) noexcept;
  PrivateFd(const PrivateFd&) = delete;
  PrivateFd& operator=(const PrivateFd&) = delete;
  ~PrivateFd() { reset(); }

  int get() const { return fd_.get(); }
  explicit operator bool() const { return static_cast<bool>(fd_); }
  void reset();

 private:
  UniqueFd fd_;
  int slot_ = -1;  // in the process's list of private descriptors; -1 when that is full
};

}  // namespace rondel
