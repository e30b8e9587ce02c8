// SPDX-License-Identifier: Apache-2.0
// The project's own files as text, for the policy tests. Reads the folders of the top level, never a build
// folder. Plain data, one thread; knows no policy.
#pragma once

#include <filesystem>
#include <string>
#include <string_view>
#include <vector>

namespace rondel::policy {

struct File {
  std::string path;  // from the root, with slashes: "lib/status.h"
  std::vector<std::string> lines;
};

/// A file as a test would write it.
File make_file(std::string path, std::string_view text);

/// Every text file of the project. Binary files are left out.
std::vector<File> read_tree(const std::filesystem::path& root);

/// "lib/status.h:12: what is wrong"
std::string finding(const File& file, std::size_t line_index, std::string_view what);

bool has_suffix(std::string_view path, std::string_view suffix);
/// .cc, .h or .c
bool is_source(const File& file);
/// "lib" of "lib/store/store.h"; empty for a file of the top level.
std::string_view top_folder(std::string_view path);
enum class Strings { blank, keep };
/// The lines of a source without comments, and with the inside of string literals blanked or kept.
std::vector<std::string> code_of(const File& file, Strings strings = Strings::blank);

}  // namespace rondel::policy
