// SPDX-License-Identifier: Apache-2.0
// Ranges in host names, as Slurm writes them: n[01-03,7] is n01, n02, n03 and n7. Pure. It knows which
// characters a host name has, and nothing of users, slots or addresses.
#pragma once

#include <cstddef>
#include <string>
#include <string_view>
#include <vector>

#include "lib/status.h"

namespace rondel {

inline constexpr std::size_t kMostRangeHosts = 65'536;  ///< that all ranges of a list or file make together

/// Letters, digits, '.', '_' and '-': ssh hands names to commands of its configuration, so nothing that a
/// shell would read is let through.
bool is_name_character(char c);

/// The names that `pattern` stands for, the last range running fastest; a pattern without brackets is its own
/// name. Numbers have at least as many digits as the first of their range. invalid_argument, before anything
/// is expanded: a malformed range, more than `most` names, a name longer than 253 bytes.
Result<std::vector<std::string>> expand_names(std::string_view pattern, std::size_t most);

}  // namespace rondel
