// SPDX-License-Identifier: Apache-2.0
// SignalSource: the launcher's signals as a descriptor for its loop. Made before any other thread, so that
// all of them have the signals blocked. A signal that was ignored when the launcher started (nohup) stays
// ignored. One thread.
#pragma once

#include <signal.h>

#include <vector>

#include "lib/status.h"
#include "lib/unique_fd.h"

namespace rondel {

class SignalSource {
 public:
  static Result<SignalSource> create();

  int fd() const { return fd_.get(); }
  /// The signals that have come, in order.
  std::vector<int> take() const;
  /// What was blocked before; for the ranks.
  const sigset_t& original_mask() const { return original_mask_; }

 private:
  SignalSource(UniqueFd fd, const sigset_t& original) : fd_(std::move(fd)), original_mask_(original) {}

  UniqueFd fd_;
  sigset_t original_mask_;
};

}  // namespace rondel
