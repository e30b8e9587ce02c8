// SPDX-License-Identifier: Apache-2.0
#include "launcher/machine.h"

#include <cerrno>
#include <memory>

#include "launcher/hwloc_library.h"

namespace rondel {
namespace {

const Result<HwlocLibrary>& library() {
  static const Result<HwlocLibrary> kLoaded = load_hwloc();
  return kLoaded;
}

CpuSet cpus_in(const HwlocLibrary& hwloc, hwloc_const_cpuset_t set) {
  CpuSet cpus;
  for (int cpu = hwloc.bitmap_next(set, -1); cpu >= 0; cpu = hwloc.bitmap_next(set, cpu)) cpus.push_back(cpu);
  return cpus;
}

std::vector<hwloc_obj_t> objects(const HwlocLibrary& hwloc, hwloc_topology_t topology,
                                 hwloc_obj_type_t type) {
  std::vector<hwloc_obj_t> found;
  const int depth = hwloc.get_type_depth(topology, type);
  const unsigned count = hwloc.get_nbobjs_by_depth(topology, depth);
  for (unsigned i = 0; i < count; ++i) found.push_back(hwloc.get_obj_by_depth(topology, depth, i));
  return found;
}

/// The number of the smallest of `groups` that holds the core; 0 where nothing is known about such groups.
/// Memory that belongs to several nodes' cores is a node too, but no smallest one.
int group_of(const HwlocLibrary& hwloc, const std::vector<hwloc_obj_t>& groups, hwloc_obj_t core) {
  hwloc_obj_t best = nullptr;
  for (const hwloc_obj_t group : groups)
    if (hwloc.bitmap_isincluded(core->cpuset, group->cpuset) != 0 &&
        (best == nullptr || hwloc.bitmap_weight(group->cpuset) < hwloc.bitmap_weight(best->cpuset)))
      best = group;
  return best == nullptr ? 0 : static_cast<int>(best->logical_index);
}

Result<Machine> describe(const char* synthetic) {
  const auto& loaded = library();
  if (!loaded.ok()) return loaded.status();
  const HwlocLibrary& hwloc = *loaded;
  hwloc_topology_t topology = nullptr;
  if (hwloc.topology_init(&topology) != 0)
    return system_failure(Code::out_of_resources, "beginning with hwloc", errno);
  const std::unique_ptr<hwloc_topology, void (*)(hwloc_topology_t)> owner(topology, hwloc.topology_destroy);
  if (synthetic != nullptr && hwloc.topology_set_synthetic(topology, synthetic) != 0)
    return Status(Code::invalid_argument, std::string("hwloc knows no machine like ") + synthetic);
  if (hwloc.topology_load(topology) != 0)
    return system_failure(Code::unavailable, "reading this host's cores with hwloc", errno);
  auto cores = objects(hwloc, topology, HWLOC_OBJ_CORE);
  if (cores.empty())
    cores = objects(hwloc, topology, HWLOC_OBJ_PU);  // a machine that does not tell its cores
  const auto sockets = objects(hwloc, topology, HWLOC_OBJ_PACKAGE);
  const auto nodes = objects(hwloc, topology, HWLOC_OBJ_NUMANODE);
  Machine machine;
  for (const hwloc_obj_t core : cores)
    machine.cores.push_back({.cpus = cpus_in(hwloc, core->cpuset),
                             .socket = group_of(hwloc, sockets, core),
                             .numa = group_of(hwloc, nodes, core)});
  return machine;
}

}  // namespace

Status machine_support() { return library().ok() ? Status() : library().status(); }

Result<Machine> this_machine() {
  auto machine = describe(nullptr);
  if (!machine.ok()) return machine;
  return restricted(*std::move(machine), allowed_cpus());
}

Result<Machine> synthetic_machine(const std::string& description) { return describe(description.c_str()); }

}  // namespace rondel
