// SPDX-License-Identifier: Apache-2.0
#include "launcher/hwloc_library.h"

#include <dlfcn.h>
#include <fmt/format.h>

namespace rondel {
namespace {

Status missing(std::string what) {
  return Status(Code::unavailable, "--bind-to needs hwloc: " + std::move(what),
                "install it (package libhwloc15) on this host, or leave --bind-to out");
}

}  // namespace

Result<HwlocLibrary> load_hwloc(const char* file) {
  void* const library = ::dlopen(file, RTLD_NOW | RTLD_LOCAL);
  if (library == nullptr) {
    const char* const why = ::dlerror();
    return missing(fmt::format("can not load {}: {}", file, why == nullptr ? "no reason given" : why));
  }
  HwlocLibrary table;
  const char* lacking = nullptr;
  const auto find = [library, &lacking](auto& function, const char* name) {
    function = reinterpret_cast<std::remove_reference_t<decltype(function)>>(::dlsym(library, name));
    if (function == nullptr && lacking == nullptr) lacking = name;
  };
  find(table.get_api_version, "hwloc_get_api_version");
  find(table.topology_init, "hwloc_topology_init");
  find(table.topology_set_synthetic, "hwloc_topology_set_synthetic");
  find(table.topology_load, "hwloc_topology_load");
  find(table.topology_destroy, "hwloc_topology_destroy");
  find(table.get_type_depth, "hwloc_get_type_depth");
  find(table.get_nbobjs_by_depth, "hwloc_get_nbobjs_by_depth");
  find(table.get_obj_by_depth, "hwloc_get_obj_by_depth");
  find(table.bitmap_next, "hwloc_bitmap_next");
  find(table.bitmap_weight, "hwloc_bitmap_weight");
  find(table.bitmap_isincluded, "hwloc_bitmap_isincluded");
  if (lacking != nullptr) return missing(fmt::format("{} has no function {}", file, lacking));
  constexpr unsigned kMajor = HWLOC_API_VERSION >> 16U;  // its structures are those that we were built with
  if (table.get_api_version() >> 16U != kMajor)
    return missing(
        fmt::format("{} is of version {}, {} wanted", file, table.get_api_version() >> 16U, kMajor));
  return table;
}

}  // namespace rondel
