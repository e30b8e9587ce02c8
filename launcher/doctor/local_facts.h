// SPDX-License-Identifier: Apache-2.0
// Gathers what this host can say of itself, from /proc, /sys, limits and the resolver. Nothing here needs a
// library of a device's vendor, and what can not be read is left out. Blocks, for as long as the name
// resolver takes. Any thread.
#pragma once

#include <string>
#include <vector>

#include "launcher/doctor/facts.h"

namespace rondel::doctor {

/// `net`: RONDEL_NET. `root` is "" but in tests: what stands in front of /proc and /sys. Transports and ports
/// are the caller's to add.
HostFacts gather_facts(const std::string& net, const std::string& root = {});

// Its parts.
LimitFacts open_file_limits();
std::vector<RdmaFacts> rdma_under(const std::string& root);
std::vector<GpuFacts> gpus_under(const std::string& root);
std::vector<NumaFacts> numa_under(const std::string& root);
NameFacts resolve_own_name(const std::string& name);

}  // namespace rondel::doctor
