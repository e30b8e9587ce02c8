// SPDX-License-Identifier: Apache-2.0
// The ways into a job: from the environment, from a unique id, through a caller's store. Each finds the job's
// meeting point and secret (rank 0 serves them where no launcher does), and joins. Blocking until all ranks
// have come or the start timeout has passed; any thread.
#pragma once

#include <span>

#include "bindings/c/job.h"
#include "bindings/c/meeting_point.h"
#include "bindings/c/options.h"
#include "lib/status.h"

namespace rondel::c {

Result<Started> start_from_environment(const Settings& settings);
Result<Started> start_from_unique_id(const Settings& settings, std::span<const std::byte> id, Rank rank,
                                     Rank size);
Result<Started> start_from_store(const Settings& settings, const Rendezvous& rendezvous, Rank rank,
                                 Rank size);

/// Opens a meeting point here and keeps its server for rank 0; returns the unique id.
Result<Bytes> make_unique_id(const Settings& settings);

}  // namespace rondel::c
