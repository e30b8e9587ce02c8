// SPDX-License-Identifier: Apache-2.0
// The file of --config-file: options as on the command line, one a line. Pure but for read_settings_file.
// Which options there are, and what their values may be, is options.cc's business.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "lib/status.h"

namespace rondel {

/// One line of such a file.
struct Setting {
  std::string where;               ///< "job.conf:3: \"np = four\"", for errors
  std::vector<std::string> words;  ///< as on a command line: {"--np", "4"}
};

/// `name = value`, `name value` or, for a flag, `name`; names as on the command line, with or without dashes.
/// A value is the rest of the line. Lines that are empty or begin with '#' say nothing.
Result<std::vector<Setting>> parse_settings(std::string_view text, std::string_view file);

/// unavailable when `path` can not be read.
Result<std::vector<Setting>> read_settings_file(const std::string& path);

}  // namespace rondel
