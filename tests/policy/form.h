// SPDX-License-Identifier: Apache-2.0
// Size and form of one source file: lengths of files and functions, and words that have no place in them.
// Pure.
#pragma once

#include <cstddef>
#include <string>
#include <vector>

#include "tests/policy/tree.h"

namespace rondel::policy {

inline constexpr std::size_t kSourceLines = 500;
inline constexpr std::size_t kHeaderLines = 200;
inline constexpr std::size_t kFunctionLines = 60;
inline constexpr std::size_t kTestBodyLines = 80;

/// A function's first line (index) and how many lines it has, from its name to its closing brace.
struct FunctionSize {
  std::size_t line_index = 0;
  std::size_t lines = 0;
};
/// Functions at namespace or class scope; lambdas count as part of theirs. Reads braces, knows no grammar.
std::vector<FunctionSize> functions_of(const File& file);

std::vector<std::string> size_findings(const File& file);

/// Banned words: getenv outside lib/config.cc, predictable temporary names, unfinished-work marks, paths of
/// one machine, `using namespace`, capture-all lambdas kept by copy; a missing licence line.
std::vector<std::string> word_findings(const File& file);

/// x.cc includes x.h before anything else, which proves that x.h stands alone. `tree` tells whether x.h
/// exists.
std::vector<std::string> own_header_findings(const File& file, const std::vector<File>& tree);

}  // namespace rondel::policy
