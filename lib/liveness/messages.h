// SPDX-License-Identifier: Apache-2.0
// What a Member and the job's server say to each other, one message per frame, and how it is written. Pure:
// bytes in, values out; every length is checked before it is believed. Any thread.
//
// Frame body: u8 kind, then the fields in the order below (lib/wire.h). Texts that are too long are cut by
// encode.
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <variant>
#include <vector>

#include "lib/liveness/incident.h"
#include "lib/liveness/monitor.h"

namespace rondel::liveness {

inline constexpr std::size_t kMessageLimit = 64 * 1024;  // bytes of a frame body

struct Join {
  Context context = 0;
  Rank rank = 0;
  Rank size = 1;
  std::string host;
};
/// One communicator is done with.
struct Leave {
  Context context = 0;
};
/// Sent each second and as the answer to a Poll.
struct Beat {
  std::vector<Progress> progress;
};
struct Suspect {
  Context context = 0;
  Rank peer = kNoRank;
  std::string evidence;
};
struct Overdue {
  Context context = 0;
  Rank peer = kNoRank;
  std::uint64_t sequence = 0;
  std::string operation;
};
/// All communicators are done with; the end of the connection is no death.
struct Goodbye {};

using ToServer = std::variant<Join, Leave, Beat, Incident, Suspect, Overdue, Goodbye>;
Bytes encode(const ToServer& message);
Result<ToServer> decode_to_server(std::span<const std::byte> body);

struct Poll {};
using ToMember = std::variant<Incident, Poll>;
Bytes encode(const ToMember& message);
Result<ToMember> decode_to_member(std::span<const std::byte> body);

}  // namespace rondel::liveness
