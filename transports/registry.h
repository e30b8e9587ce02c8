// SPDX-License-Identifier: Apache-2.0
// The explicit list of the backends that this build holds; registry.cc is the only file that names them. Pure
// except for what the backends' probes look at. Any thread.
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "lib/auth.h"
#include "lib/config.h"
#include "transports/transport.h"

namespace rondel {

/// Opens the door to every backend built in, in order of preference. `secret` authenticates their
/// connections.
std::vector<std::unique_ptr<Transport>> make_transports(const Config& config, const Secret& secret);

/// One line for each transport that Rondel knows, in order of preference, then those that are not built:
/// usable or why not. For --check-build.
struct BackendReport {
  std::string name;
  bool built = false;
  bool joins_processes = true;
  Probe probe;
};
std::vector<BackendReport> report_backends(const Config& config);

/// All that RONDEL_TRANSPORT may be, built or not. Looks at nothing.
std::vector<std::string> transport_names();

}  // namespace rondel
