// SPDX-License-Identifier: Apache-2.0
// Connecting to the job's server: finding its address, trying again while it is not there yet, and the
// handshake. Blocks the calling thread until its deadline at most; only the system's name resolver keeps its
// own time.
#pragma once

#include <chrono>
#include <span>
#include <string>

#include "lib/auth.h"
#include "lib/deadline.h"
#include "lib/memory.h"
#include "lib/status.h"
#include "lib/store/socket.h"
#include "lib/types.h"
#include "lib/unique_fd.h"

namespace rondel::store {

/// The initiator's payload: what a connection to the job's server is for.
inline constexpr const char* kStoreRole = "store";
inline constexpr const char* kMemberRole = "liveness";

struct Dialled {
  UniqueFd fd;         ///< authenticated
  Bytes peer_payload;  ///< what the server said of itself in the handshake
};

/// Who keeps a job's server.
struct Holder {
  Rank rank = kNoRank;  ///< none: the launcher
  std::string host;

  /// "rank 0 (host nodea)", "the launcher"
  std::string text() const;
};
/// From what the server said of itself.
Holder holder_of(std::span<const std::byte> peer_payload);

/// refused at once when the server denies the handshake; timed_out with the last try's failure when the
/// deadline passes. `silence`: see set_stream_options.
Result<Dialled> dial(const std::string& address, const Secret& secret, const std::string& role,
                     Deadline deadline, std::chrono::milliseconds silence = kUsualSilence);

/// The same with one try at each address that a name has, and without words about a job's server.
Result<Dialled> dial_once(const std::string& address, const Secret& secret, const std::string& role,
                          Deadline deadline);

}  // namespace rondel::store
