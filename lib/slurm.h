// SPDX-License-Identifier: Apache-2.0
// Slurm's way of writing one number for each node: "2(x3),1" is 2, 2, 2, 1 (sbatch(1), SLURM_TASKS_PER_NODE).
// Pure, any thread.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string_view>
#include <vector>

namespace rondel {

inline constexpr std::size_t kMostSlurmNodes = 65'536;

/// Empty when it can not be read, holds a number below 1, or is for more nodes than kMostSlurmNodes.
std::vector<std::int32_t> slurm_counts(std::string_view list);

}  // namespace rondel
