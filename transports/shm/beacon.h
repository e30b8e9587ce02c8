// SPDX-License-Identifier: Apache-2.0
// Beacon: by which the ranks of one kernel learn, before they rely on it, whether they really reach one
// another: a container's policy, or a user namespace, may forbid what the names of kernel and user promise.
// Nobody reads what comes to it. Any thread.
#pragma once

#include <memory>
#include <span>

#include "lib/memory.h"
#include "lib/private_fd.h"
#include "lib/status.h"

namespace rondel::shm {

class Beacon {
 public:
  static Result<std::shared_ptr<const Beacon>> light();
  /// What a peer needs.
  const Bytes& address() const { return address_; }

  /// out_of_resources is this process's own; any other failure is the reason why the owner can not be
  /// reached.
  static Status reach(std::span<const std::byte> address);

 private:
  Beacon() = default;

  PrivateFd listener_;
  Bytes address_;
};

}  // namespace rondel::shm
