// SPDX-License-Identifier: Apache-2.0
#include "lib/cpu_set.h"

#include <fmt/format.h>
#include <sched.h>

#include <algorithm>
#include <array>
#include <climits>
#include <cstddef>

namespace rondel {

CpuSet allowed_cpus() {
  // A machine may have more cores than a cpu_set_t; grow until the kernel's mask fits.
  for (std::size_t sets = 1; sets <= 64; sets *= 2) {
    std::array<cpu_set_t, 64> mask{};
    const std::size_t bytes = sets * sizeof(cpu_set_t);
    if (::sched_getaffinity(0, bytes, mask.data()) != 0) continue;
    CpuSet cpus;
    for (std::size_t cpu = 0; cpu < bytes * CHAR_BIT; ++cpu)
      if (CPU_ISSET_S(cpu, bytes, mask.data())) cpus.push_back(static_cast<int>(cpu));
    return cpus;
  }
  return {};
}

std::string cpu_list(const CpuSet& cpus) {
  std::string text;
  for (std::size_t at = 0; at < cpus.size();) {
    std::size_t end = at + 1;
    while (end < cpus.size() && cpus[end] == cpus[end - 1] + 1) ++end;
    if (!text.empty()) text += ',';
    text += end - at == 1 ? fmt::format("{}", cpus[at]) : fmt::format("{}-{}", cpus[at], cpus[end - 1]);
    at = end;
  }
  return text;
}

std::vector<unsigned long> mask_of(const CpuSet& cpus) {
  constexpr std::size_t kBits = sizeof(unsigned long) * CHAR_BIT;
  std::vector<unsigned long> mask;
  for (const int cpu : cpus) {
    const auto bit = static_cast<std::size_t>(cpu);
    mask.resize(std::max(mask.size(), bit / kBits + 1));
    mask[bit / kBits] |= 1UL << (bit % kBits);
  }
  return mask;
}

}  // namespace rondel
