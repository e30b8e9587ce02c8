// SPDX-License-Identifier: Apache-2.0
// Incident: the first failure of a communicator as all of its ranks agree on it. Plain data, any thread.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <string>

#include "lib/memory.h"
#include "lib/status.h"

namespace rondel::liveness {

/// Names a communicator within its job; equal on all of its ranks.
using Context = std::uint64_t;

/// A host name is sent up to here.
constexpr std::size_t kHostLimit = 256;

struct Incident {
  Context context = 0;
  Code code = Code::internal;
  Rank guilty = kNoRank;  ///< rank in that communicator, kNoRank when nobody can be named
  std::string host;       ///< of the guilty rank
  std::string cause;      ///< one sentence, the same on every rank
  std::string hint;
};

Bytes encode(const Incident& incident);
Result<Incident> decode_incident(std::span<const std::byte> bytes);

}  // namespace rondel::liveness
