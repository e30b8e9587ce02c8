// SPDX-License-Identifier: Apache-2.0
// MeetingPoint: where the ranks of a job find one another, and the secret that lets them in. Travels as a
// unique id, or as a value in a store that is as private as the job. Any thread; opens no connection itself,
// except that reachable_address asks the system for its routes.
#pragma once

#include <functional>
#include <memory>
#include <span>
#include <string>

#include "lib/auth.h"
#include "lib/config.h"
#include "lib/deadline.h"
#include "lib/memory.h"
#include "lib/status.h"
#include "lib/store/store.h"
#include "lib/store/tcp_server.h"

namespace rondel::c {

struct MeetingPoint {
  std::string address;  ///< "host:port"
  Secret secret;
};

inline constexpr std::size_t kMeetingPointBytes = 128;
/// Always kMeetingPointBytes long. invalid_argument when the address does not fit.
Result<Bytes> encode(const MeetingPoint& point);
Result<MeetingPoint> decode_meeting_point(std::span<const std::byte> bytes);

/// A meeting point that this process serves, as rank 0.
struct HostedMeetingPoint {
  MeetingPoint point;
  std::unique_ptr<TcpServer> server;
};
/// `bind_address` is numeric; `port` 0: the kernel chooses.
Result<HostedMeetingPoint> host_meeting_point(const Config& config, const Secret& secret,
                                              const std::string& bind_address, std::uint16_t port);

/// The numeric address on which rank 0 serves the job: `wanted` when not empty; loopback when `one_host`;
/// else one that `net` (RONDEL_NET) admits, the default route's before others; loopback when there is none.
Result<std::string> reachable_address(const std::string& wanted, bool one_host, const std::string& net);

/// "127.0.0.1:4000", "[::1]:4000"
std::string socket_text(const std::string& numeric_address, std::uint16_t port);

/// A foreign store, or a directory, in which rank 0 leaves the meeting point for the others.
struct Rendezvous {
  std::function<Status(const std::string& key, std::span<const std::byte> value)> set;
  std::function<Result<Bytes>(const std::string& key, Deadline deadline)> get;
  /// At the end of the job, where the store can: nobody else's value. May be empty.
  std::function<void(const std::string& key, std::span<const std::byte> value)> take_back = {};
};

struct Joined {
  MeetingPoint point;
  std::unique_ptr<Store> store;
};
/// Reads `key` and connects to the server that it names; reads it anew when there is none, because the value
/// may be left over from an earlier job.
Result<Joined> join_through(const Config& config, const Rendezvous& rendezvous, const std::string& key,
                            Deadline deadline);

}  // namespace rondel::c
