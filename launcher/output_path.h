// SPDX-License-Identifier: Apache-2.0
// Where a rank's output goes beside the launcher's own: --output-filename as the user wrote it, either a
// folder or a pattern such as logs/%h/%R.log, which has one file for both streams of a rank. Pure; it opens
// nothing.
#pragma once

#include <string>
#include <string_view>

#include "launcher/agent_protocol.h"
#include "lib/status.h"
#include "lib/types.h"

namespace rondel {

/// What a pattern may name.
struct OutputNames {
  Rank rank = kNoRank;
  Rank size = 0;
  std::string host;
  std::string job;
};

/// Whether `text` has a '%', and so is no folder.
bool is_output_pattern(std::string_view text);

/// invalid_argument: a conversion that is none of %r, %R, %h, %j and %%, or no rank in a pattern, so that
/// ranks would write one over the other.
Status check_output_pattern(std::string_view text);

/// The file for one stream. %r is the rank, %R the same with as many digits as the highest one has, %h the
/// host, %j the job. `text` is a folder or has been checked.
std::string output_path(std::string_view text, const OutputNames& names, agent::Stream stream);

}  // namespace rondel
