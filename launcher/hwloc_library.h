// SPDX-License-Identifier: Apache-2.0
// HwlocLibrary: the functions of libhwloc that machine.cc calls, as a table of plain pointers, opened at run
// time. Loaded once per process and never unloaded. One thread.
#pragma once

#include <hwloc.h>

#include "lib/status.h"

namespace rondel {

struct HwlocLibrary {
  decltype(&::hwloc_get_api_version) get_api_version = nullptr;
  decltype(&::hwloc_topology_init) topology_init = nullptr;
  decltype(&::hwloc_topology_set_synthetic) topology_set_synthetic = nullptr;
  decltype(&::hwloc_topology_load) topology_load = nullptr;
  decltype(&::hwloc_topology_destroy) topology_destroy = nullptr;
  decltype(&::hwloc_get_type_depth) get_type_depth = nullptr;
  decltype(&::hwloc_get_nbobjs_by_depth) get_nbobjs_by_depth = nullptr;
  decltype(&::hwloc_get_obj_by_depth) get_obj_by_depth = nullptr;
  decltype(&::hwloc_bitmap_next) bitmap_next = nullptr;
  decltype(&::hwloc_bitmap_weight) bitmap_weight = nullptr;
  decltype(&::hwloc_bitmap_isincluded) bitmap_isincluded = nullptr;
};

/// Opens `file` and finds every function. unavailable says what is missing and which package has it.
Result<HwlocLibrary> load_hwloc(const char* file = "libhwloc.so.15");

}  // namespace rondel
