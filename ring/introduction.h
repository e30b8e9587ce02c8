// SPDX-License-Identifier: Apache-2.0
// Introduction: what the ranks of a communicator tell one another while it is made, and its form on the wire.
// Pure, any thread.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "lib/auth.h"
#include "lib/host_identity.h"
#include "lib/memory.h"
#include "lib/status.h"
#include "lib/types.h"
#include "transports/select.h"

namespace rondel {

/// What a rank says of itself first.
struct Hello {
  std::uint16_t version = kProtocolVersion;
  Rank size = 0;
  std::string transport;  // wanted
  std::string algorithm;  // wanted
  std::uint64_t segment_bytes = 0;
  HostIdentity host;
  Offers offers;
};
Bytes encode(const Hello& hello);
/// refused: `rank` speaks another version, or says nothing sensible.
Result<Hello> decode_hello(const Bytes& bytes, Rank rank);

/// What a rank says when a transport has been chosen: where its endpoints are, or why they are not.
struct Answer {
  Status opened;
  std::vector<Rank> unreached;  // ranks that the transport promised
  std::string why_unreached;    // the first of them
  Bytes data, pairs;            // addresses, where all are reached
};
Bytes encode(const Answer& answer);
/// What all ranks say of a rank that could not open its endpoints.
Status can_not_start(Rank rank, const std::string& host, const Status& why);
/// refused: it says nothing sensible. A failure in `opened` is as of can_not_start().
Result<Answer> decode_answer(const Bytes& bytes, Rank rank, const std::string& host);

}  // namespace rondel
