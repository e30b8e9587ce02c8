// SPDX-License-Identifier: Apache-2.0
// Pure choice of the transport that all ranks share, from what each rank's probes said. No input or output,
// any thread.
#pragma once

#include <span>
#include <string>
#include <vector>

#include "lib/memory.h"
#include "lib/status.h"
#include "lib/types.h"
#include "transports/transport.h"

namespace rondel {

/// One rank's view of one transport.
struct Offer {
  std::string name;
  Probe probe;
};
using Offers = std::vector<Offer>;

/// What all ranks use.
struct Choice {
  std::string transport;
  /// By rank: ranks of one place have the number of its lowest rank. Empty unless the transport is a mux.
  std::vector<std::uint32_t> places;
};

Bytes encode(const Offers& offers);
Result<Offers> decode_offers(std::span<const std::byte> bytes);

/// The fastest transport (bytes_per_second of its slowest rank; ties: name) that every rank can use in one
/// common domain; a mux where no two ranks share a place comes last. `wanted`, when not empty, is the only
/// candidate. unavailable says for every candidate which rank (and host) can not use it and why.
Result<Choice> select_transport(std::span<const Offers> by_rank, std::span<const std::string> hosts,
                                std::string_view wanted);

/// Whose beacons of transport `name` rank `rank` has to try: those of all others in its domain, as a way may
/// be open in one direction only.
std::vector<Rank> beacons_to_try(std::string_view name, std::span<const Offers> by_rank, Rank rank);
const Bytes& beacon_of(std::string_view name, const Offers& offers);

/// Ranks of one domain of transport `name` that do not all reach one another get domains of their own, each
/// with ranks that do; the smallest ranks go together. `unreached` by rank: smaller ones that it can not
/// reach.
void separate(std::string_view name, std::span<Offers> by_rank, std::span<const std::vector<Rank>> unreached);

}  // namespace rondel
