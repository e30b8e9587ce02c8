// SPDX-License-Identifier: Apache-2.0
// Calibration: measures, on a communicator's fresh endpoint, what a hop costs while all ranks send to their
// next, and agrees with all ranks on the largest of each number, so that all tune alike. A dozen hops, a few
// milliseconds, for any number of ranks. Collective, driver thread only.
#pragma once

#include "lib/deadline.h"
#include "lib/liveness/member.h"
#include "ring/tuning.h"
#include "transports/endpoint.h"

namespace rondel {

/// The peers of make_agreement() are connected.
Result<Cost> measure_cost(Endpoint& endpoint, Rank rank, Rank size, const liveness::Watch& watch,
                          Deadline deadline);

}  // namespace rondel
