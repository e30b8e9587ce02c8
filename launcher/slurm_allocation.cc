// SPDX-License-Identifier: Apache-2.0
#include "launcher/slurm_allocation.h"

#include <fmt/format.h>

#include <algorithm>

#include "launcher/host_list.h"
#include "launcher/visible_text.h"
#include "lib/slurm.h"

namespace rondel {

Result<std::vector<Host>> hosts_of_allocation(const std::string& nodes, const std::string& tasks) {
  auto hosts = parse_host_list(nodes);
  if (!hosts.ok()) return std::move(hosts).status().with("SLURM_JOB_NODELIST (name hosts with -H instead)");
  if (tasks.empty()) return hosts;
  const auto counts = slurm_counts(tasks);
  if (counts.size() != hosts->size())
    return Status(Code::invalid_argument,
                  fmt::format("SLURM_TASKS_PER_NODE is {}, which is not one number for each of {} nodes",
                              visible(tasks), hosts->size()),
                  "name hosts with -H instead");
  for (std::size_t i = 0; i < counts.size(); ++i) (*hosts)[i].slots = std::min(counts[i], kMostSlots);
  return hosts;
}

}  // namespace rondel
