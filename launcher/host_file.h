// SPDX-License-Identifier: Apache-2.0
// Hostfiles: one host or range a line, in the dialects of Open MPI (node1 slots=4) and of MPICH (node1:4),
// mixed at will. parse_host_file is pure; read_host_file does the input.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "launcher/host.h"
#include "lib/status.h"

namespace rondel {

struct HostFile {
  std::vector<Host> hosts;            ///< as parse_host_list gives them
  std::vector<std::string> warnings;  ///< settings that were accepted but do nothing
};

/// A line is an item of a host list and, behind it, any of slots=N, port=N, user=U and max_slots=N; '#'
/// begins a comment. Where slots=N is given, an IPv6 address needs no brackets. invalid_argument names
/// `file`, the line's number and text, what is wrong and what was expected.
Result<HostFile> parse_host_file(std::string_view text, std::string_view file);

/// Reads until the end, so a pipe is as good as a file; at most 16 MiB. A file that can not be read is
/// `unavailable`, with the system's words.
Result<HostFile> read_host_file(const std::string& path);

}  // namespace rondel
