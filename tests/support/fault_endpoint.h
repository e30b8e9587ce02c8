// SPDX-License-Identifier: Apache-2.0
// An Endpoint that misbehaves within the contract, around one that does not: it holds batches back, looks
// away when asked to progress, and cuts itself off at a chosen work. Same seed, same misbehaviour. Owned like
// any endpoint.
#pragma once

#include <cstdint>
#include <memory>

#include "transports/transport.h"

namespace rondel::test {

struct Faults {
  std::uint64_t seed = 1;
  double hold = 0;  ///< probability that a posted batch, and all behind it, is held back for a while
  unsigned longest_hold = 8;    ///< in calls of progress
  double look_away = 0;         ///< probability that a call of progress does nothing
  std::uint64_t fail_work = 0;  ///< the n-th posted work (from 1) fails, and so poisons the endpoint; 0: none
  Code fail_code = Code::peer_lost;
};

/// The failure names `fail_work`'s peer and begins with "injected".
std::unique_ptr<Endpoint> with_faults(std::unique_ptr<Endpoint> inner, const Faults& faults);

/// A transport whose endpoints are all such; each mixes its rank and channel into the seed. Faults with
/// `fail_work` strike only the endpoints of `guilty` (all of them when it is kNoRank).
std::unique_ptr<Transport> with_faults(std::unique_ptr<Transport> inner, const Faults& faults,
                                       Rank guilty = kNoRank);

}  // namespace rondel::test
