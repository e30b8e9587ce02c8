// SPDX-License-Identifier: Apache-2.0
// What stands in for machine.cc in a build without hwloc.
#include "launcher/machine.h"

namespace rondel {

Status machine_support() {
  return Status(Code::unavailable, "this rondelrun was built without hwloc, which --bind-to needs",
                "install libhwloc-dev and build with -Dhwloc=enabled, or leave --bind-to out");
}

Result<Machine> this_machine() { return machine_support(); }

Result<Machine> synthetic_machine(const std::string&) { return machine_support(); }

}  // namespace rondel
