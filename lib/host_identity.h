// SPDX-License-Identifier: Apache-2.0
// Which machine this process runs on, for people (host name) and for deciding whether two ranks share a kernel
// (boot id plus namespaces). Read once at start, any thread.
#pragma once

#include <string>

namespace rondel {

struct HostIdentity {
  std::string name;    ///< host name, for messages only: two hosts may have the same
  std::string kernel;  ///< equal for two processes exactly when they run under one kernel and network namespace
  int cores = 1;       ///< cores this process may run on (its affinity mask, cgroup quota rounded up)
};

/// Never fails: what can not be read is left out of the identity.
HostIdentity this_host();

}  // namespace rondel
