// SPDX-License-Identifier: Apache-2.0
// What /proc tells of processes: state, parent, session, and the environment with which a program began.
// Reads only, any thread; what can not be read is as good as absent.
#pragma once

#include <sys/types.h>

#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace rondel {

struct ProcessFacts {
  char state = '?';
  pid_t parent = -1;
  pid_t session = -1;
  bool living() const { return state != 'Z' && state != 'X'; }
};
std::optional<ProcessFacts> process_facts(pid_t pid);

/// "NAME=value" entries, each ended by a zero byte; empty when it can not be read.
std::string environment_of(pid_t pid);

/// The value of a variable in such a text.
std::optional<std::string_view> value_in(std::string_view environment, std::string_view name);

/// The environments with which this process, its parent and so on began, up to the last that can be read.
std::vector<std::string> environments_upwards();

}  // namespace rondel
