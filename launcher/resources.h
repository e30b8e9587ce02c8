// SPDX-License-Identifier: Apache-2.0
// What a job needs from this machine before anything is started: a name, a free port, room for descriptors.
// Called once each by the job; nothing here is kept open.
#pragma once

#include <sys/resource.h>

#include <cstdint>
#include <string>

#include "lib/status.h"
#include "lib/types.h"

namespace rondel {

/// The only address that the local form of the launcher listens on.
inline constexpr char kLoopback[] = "127.0.0.1";

/// Unguessable, so that no other process carries it by chance.
Result<std::string> make_job_name();

/// A port of kLoopback that is free now, for frameworks that bring their own store.
Result<std::uint16_t> find_free_port();

/// Raises the launcher's own soft limit as far as it goes; returns the limit that ranks are to have, the old
/// one. out_of_resources names the hard limit and what so many ranks need.
Result<rlimit> make_room_for_descriptors(Rank ranks);

}  // namespace rondel
