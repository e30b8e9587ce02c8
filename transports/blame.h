// SPDX-License-Identifier: Apache-2.0
// How the failures of an endpoint name a peer: by rank, and by host where that is known. Pure, any thread.
#pragma once

#include <string>

#include "lib/status.h"
#include "transports/transport.h"

namespace rondel {

/// "rank 3 (host nodeb)", or "rank 3".
std::string name_of(const EndpointOptions& options, Rank peer);

/// What `options.rank` tells of `peer`, which may be kNoRank.
Failure failure_about(const EndpointOptions& options, Rank peer, std::string cause, std::string hint = {});

}  // namespace rondel
