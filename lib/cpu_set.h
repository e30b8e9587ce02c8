// SPDX-License-Identifier: Apache-2.0
// CpuSet: processors (hardware threads) by the kernel's numbers, ascending, each once. Any thread.
#pragma once

#include <string>
#include <vector>

namespace rondel {

using CpuSet = std::vector<int>;

/// Those that this thread may run on: its affinity mask, which holds nothing that its control group's cpuset
/// does not. Empty when the kernel does not tell.
CpuSet allowed_cpus();

/// "0-3,8", as the kernel writes lists.
std::string cpu_list(const CpuSet& cpus);

/// The mask for sched_setaffinity().
std::vector<unsigned long> mask_of(const CpuSet& cpus);

}  // namespace rondel
