// SPDX-License-Identifier: Apache-2.0
// Transport: a way of moving bytes that this build knows: whether it can be used here, and the door to it.
// Availability is data, never an exception at first use. Objects live as long as any endpoint they opened;
// driver thread only.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "lib/auth.h"
#include "lib/memory.h"
#include "lib/status.h"
#include "lib/types.h"
#include "transports/endpoint.h"

namespace rondel {

struct Probe {
  bool usable = false;
  std::string why_not;                 ///< one sentence when not usable, with the fix in it
  std::string domain;                  ///< only endpoints of equal domains connect
  std::string joins;                   ///< whom a domain holds: "threads of one process"; empty: all ranks
  std::uint64_t bytes_per_second = 0;  ///< rough expectation, for choosing between transports
  /// Of a mux: ranks with equal ones reach each other by its inner transport; empty: that is not usable here.
  std::optional<std::string> inner_domain;
  /// Where the others of the domain (of the inner one, of a mux) can try whether they reach this rank; empty:
  /// they do.
  Bytes beacon;
  std::shared_ptr<const void> lit;  ///< the beacon is there as long as this; stays in the process
};

struct EndpointOptions {
  Rank rank = 0;
  Rank size = 1;
  std::uint64_t context = 0;  ///< names the communicator; equal on all of its ranks, unique in the job
  std::uint16_t channel = 0;  ///< tells the endpoints of one communicator apart (data, point-to-point, ...)
  std::string description;    ///< "rank 3 of 8"; for error texts
  std::vector<std::string> hosts;     ///< host name by rank; for error texts
  bool oversubscribed = false;        ///< more ranks than cores on this host: yield rather than spin
  bool single_host = false;           ///< all ranks run under one kernel and network namespace
  std::vector<std::uint32_t> places;  ///< for a mux, by rank: those of one place reach each other inside it
};

class Transport {
 public:
  virtual ~Transport() = default;
  virtual std::string_view name() const = 0;
  virtual Probe probe() const = 0;
  /// Really tries. out_of_resources is this process's own; any other failure says why the beacon's owner is
  /// out of reach.
  virtual Status try_beacon(std::span<const std::byte>) const { return {}; }
  virtual Result<std::unique_ptr<Endpoint>> open(const EndpointOptions& options) = 0;
};

}  // namespace rondel
