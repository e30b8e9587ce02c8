// SPDX-License-Identifier: Apache-2.0
#include "launcher/slurm_allocation.h"

#include <fmt/format.h>

#include <algorithm>

#include "launcher/host_list.h"
#include "launcher/visible_text.h"
#include "lib/slurm.h"

namespace rondel {

namespace {

struct Names {
  std::string nodes;  ///< such as n[01-04,7],gpu1
  std::string tasks;  ///< such as 2(x5),4; its value may be missing: one for each
};

Result<std::vector<Host>> hosts_of(const Lookup& lookup, const Names& names) {
  const std::string tasks = value_of(lookup, names.tasks.c_str());
  auto hosts = parse_host_list(value_of(lookup, names.nodes.c_str()));
  if (!hosts.ok()) return std::move(hosts).status().with(names.nodes + " (name hosts with -H instead)");
  if (tasks.empty()) return hosts;
  const auto counts = slurm_counts(tasks);
  if (counts.size() != hosts->size())
    return Status(Code::invalid_argument,
                  fmt::format("{} is {}, which is not one number for each of {} nodes", names.tasks,
                              visible(tasks), hosts->size()),
                  "name hosts with -H instead");
  for (std::size_t i = 0; i < counts.size(); ++i) (*hosts)[i].slots = std::min(counts[i], kMostSlots);
  return hosts;
}

Result<std::vector<Host>> hosts_of_groups(const Lookup& lookup) {
  std::vector<Host> all;
  for (int group = 0;; ++group) {
    const Names names{fmt::format("SLURM_JOB_NODELIST_HET_GROUP_{}", group),
                      fmt::format("SLURM_TASKS_PER_NODE_HET_GROUP_{}", group)};
    if (value_of(lookup, names.nodes.c_str()).empty()) return all;
    const auto hosts = hosts_of(lookup, names);
    RONDEL_TRY(hosts);
    all.insert(all.end(), hosts->begin(), hosts->end());
  }
}

}  // namespace

Result<std::vector<Host>> allocated_hosts(const Lookup& lookup) {
  const Names job{"SLURM_JOB_NODELIST", "SLURM_TASKS_PER_NODE"};
  const Names step{"SLURM_STEP_NODELIST", "SLURM_STEP_TASKS_PER_NODE"};
  if (value_of(lookup, job.nodes.c_str()).empty()) return hosts_of_groups(lookup);
  auto hosts = hosts_of(lookup, job);
  if (hosts.ok() || value_of(lookup, step.nodes.c_str()).empty()) return hosts;
  auto of_step = hosts_of(lookup, step);  // its SLURM_TASKS_PER_NODE is the step's as well
  return of_step.ok() ? of_step : hosts;
}

}  // namespace rondel
