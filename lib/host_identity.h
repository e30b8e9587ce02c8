// SPDX-License-Identifier: Apache-2.0
// Which machine this process runs on, for people (host name) and for deciding whether two ranks share a
// kernel (boot id plus namespaces). Read once at start, any thread.
#pragma once

#include <string>

#include "lib/status.h"

namespace rondel {

struct HostIdentity {
  std::string name;  ///< host name, for messages only: two hosts may have the same
  std::string
      kernel;     ///< equal for two processes exactly when they run under one kernel and network namespace
  int cores = 1;  ///< cores this process may run on (its affinity mask, cgroup quota rounded up)
};

/// out_of_resources when no descriptor was left to read it; what the system does not offer is left out.
Result<HostIdentity> this_host();
/// HostIdentity::name alone, which needs no descriptor.
std::string host_name();

/// Whether two processes share a machine and thus its cores, be it from different containers.
bool same_machine(const HostIdentity& one, const HostIdentity& other);
/// The cores of this machine, whoever may use them.
int machine_cores();

/// The cores that the process's control groups (versions 1 and 2) allow, quotas rounded up; the largest int
/// when there is no quota. Paths: /proc/self/cgroup and /sys/fs/cgroup, or a test's.
int cgroup_cores(const std::string& membership_path, const std::string& mount);

}  // namespace rondel
