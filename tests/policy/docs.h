// SPDX-License-Identifier: Apache-2.0
// What the documents promise: links that lead somewhere, and settings that exist. Pure but for file
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

/// RONDEL_ names that a document, a comment or a message of the tree tells people about, and that are neither
/// in the configuration table (`options`, from which help and man pages are made) nor names of the code.
std::vector<std::string> option_findings(const std::vector<File>& tree,
                                         std::span<const std::string_view> options);

/// Entries of the top level that the layout does not know. Dot files and build folders are free.
std::vector<std::string> top_level_findings(const std::filesystem::path& root);

}  // namespace rondel::policy
