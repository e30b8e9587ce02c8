// SPDX-License-Identifier: Apache-2.0
// Doorbell: one descriptor for an event loop that turns readable when the fabric has something, or at once
// when an operation has ended already. Owned by a communicator's handle; the thread that is inside it.
#pragma once

#include <memory>

#include "lib/status.h"
#include "lib/unique_fd.h"

namespace rondel::c {

class Doorbell {
 public:
  static Result<std::unique_ptr<Doorbell>> create();

  /// Watches `fabric` (-1: none), which must be the same each time; `ring` makes the descriptor readable
  /// until the next call.
  Status arm(int fabric, bool ring);
  int descriptor() const { return both_.get(); }

 private:
  Doorbell() = default;

  UniqueFd bell_;  // an eventfd
  UniqueFd both_;  // an epoll of it and the fabric
  int watched_ = -1;
  bool rung_ = false;
};

}  // namespace rondel::c
