// SPDX-License-Identifier: Apache-2.0
// What the two ends of a probe agree on. A connection begins with the handshake of lib/auth.h under the
// examination's secret, so that strangers get no further; its initiator says what the connection is for, its
// responder which host it is. Constants; no state.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <span>
#include <string>

#include "lib/memory.h"
#include "lib/wire.h"

namespace rondel::doctor {

inline constexpr const char* kReachRole = "doctor reach";  ///< nothing more than to have met
inline constexpr const char* kEchoRole = "doctor echo";    ///< every byte comes back
/// Bytes are counted until the initiator's end of file; then two u64 come back: how many, and the nanoseconds
/// from the first one on.
inline constexpr const char* kSinkRole = "doctor sink";
inline constexpr std::size_t kSinkReplyBytes = 16;

/// In place of a failure, for an address that nobody came to.
inline constexpr const char* kNoTime = "there was no time left to try it";

inline Bytes host_payload(std::uint32_t host) { return wire::Writer().text("doctor").number(host).take(); }

/// Whether the responder is a host's, and not the job's store.
inline bool is_any_host(std::span<const std::byte> payload) {
  return wire::Reader(payload).text(16) == "doctor";
}
inline bool is_host(std::span<const std::byte> payload, std::uint32_t host) {
  const Bytes expected = host_payload(host);
  return std::equal(payload.begin(), payload.end(), expected.begin(), expected.end());
}

}  // namespace rondel::doctor
