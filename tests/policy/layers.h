// SPDX-License-Identifier: Apache-2.0
// Which folder may include which: the arrows of docs/architecture.md, as a check of one file's #include
// lines. Pure.
#pragma once

#include <string>
#include <vector>

#include "tests/policy/tree.h"

namespace rondel::policy {

/// One finding for each include that goes against the arrows.
std::vector<std::string> layer_findings(const File& file);

/// Backends (the folders of transports/) that `file` names although it is none of the places that may.
std::vector<std::string> backend_name_findings(const File& file, const std::vector<std::string>& backends);

/// The folders of transports/ that hold files.
std::vector<std::string> backends_of(const std::vector<File>& tree);

}  // namespace rondel::policy
