// SPDX-License-Identifier: Apache-2.0
// What the documents promise: links that lead somewhere, and every option described. Pure but for file
// look-ups.
#pragma once

#include <filesystem>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "tests/policy/tree.h"

namespace rondel::policy {

/// Relative links of a Markdown file that lead to no file or folder.
std::vector<std::string> link_findings(const File& file, const std::filesystem::path& root);

/// Options of the configuration table that no man page describes, and RONDEL_ variables of the man pages that
/// no table knows.
std::vector<std::string> option_findings(const std::vector<File>& tree,
                                         std::span<const std::string_view> options);

/// Entries of the top level that the layout does not know. Dot files and build folders are free.
std::vector<std::string> top_level_findings(const std::filesystem::path& root);

}  // namespace rondel::policy
