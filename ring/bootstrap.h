// SPDX-License-Identifier: Apache-2.0
// Bootstrap: from nothing but a way to exchange bytes to connected endpoints: ranks compare versions and
// settings, choose a transport together, exchange addresses, connect the peers that agreements need, and
// measure what a hop costs. Driver thread only.
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "lib/liveness/member.h"
#include "ring/communicator.h"
#include "ring/exchange.h"
#include "ring/tuning.h"
#include "transports/endpoint.h"

namespace rondel {

/// What a communicator stands on. One rank alone has hosts and nothing else.
struct Attachment {
  std::string transport;
  std::vector<std::string> hosts;     // by rank
  std::unique_ptr<Endpoint> data;     // collectives
  std::unique_ptr<Endpoint> pairs;    // sends and receives; connected pair by pair on first use
  std::vector<std::uint32_t> places;  // by rank, of a mux: equal where ranks share memory; else empty
  std::vector<Rank> order;            // round the ring; empty: by number
  std::vector<Bytes> data_addresses;
  std::vector<Bytes> pair_addresses;
  Cost cost;
};

/// A 64-bit name for a communicator, equal on all ranks.
liveness::Context context_of(std::string_view name);

Result<Attachment> bootstrap(Job& job, const CommunicatorOptions& options, Exchange& exchange,
                             const liveness::Watch& watch, Deadline deadline);

}  // namespace rondel
