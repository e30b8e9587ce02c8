// SPDX-License-Identifier: Apache-2.0
// What launcher and agents need from their machine before anything is started: a name, a free port, room for
// descriptors, the environment. Called once each; nothing here is kept open.
#pragma once

#include <sys/resource.h>

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "lib/status.h"
#include "lib/types.h"

namespace rondel {

/// What a job listens on that runs on this host only.
inline constexpr char kLoopback[] = "127.0.0.1";

/// Unguessable, so that no other process carries it by chance.
Result<std::string> make_job_name();

/// A port that is free now on every address, for frameworks that bring their own store.
Result<std::uint16_t> find_free_port();

/// Raises the process's own soft limit as far as it goes; returns the limit that ranks are to have, the old
/// one. out_of_resources when not even the hard limit allows `needed`; `ranks` and `who` are for its text.
Result<rlimit> make_room_for_descriptors(std::size_t needed, std::size_t ranks, std::string_view who);

/// What `needed` above is for the agent of so many ranks.
constexpr std::size_t agent_descriptors(std::size_t ranks) { return 32 + 2 * ranks; }
/// And for a launcher: for each rank its store and its liveness connection and maybe two files, for each host
/// three streams.
constexpr std::size_t launcher_descriptors(std::size_t ranks, std::size_t hosts, bool files) {
  return 24 + (files ? 4 : 2) * ranks + 4 * hosts;
}

/// The process's environment, "NAME=value" each.
std::vector<std::string> inherited_environment();

}  // namespace rondel
