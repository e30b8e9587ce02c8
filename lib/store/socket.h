// SPDX-License-Identifier: Apache-2.0
// What the job server and its clients need of TCP sockets: addresses in words, options, listening, and
// sending and receiving with a deadline. All sockets are non-blocking and close on exec; writing to a closed
// one is an error, not a signal. Any thread.
#pragma once

#include <sys/socket.h>

#include <chrono>
#include <cstdint>
#include <span>
#include <string>

#include "lib/deadline.h"
#include "lib/memory.h"
#include "lib/status.h"
#include "lib/unique_fd.h"

namespace rondel::store {

struct HostPort {
  std::string host;  // name, IPv4 or IPv6 without brackets
  std::string port;
};

/// "host:port", "[v6]:port".
Result<HostPort> parse_address(const std::string& address);
/// The reverse; brackets around what holds a colon.
std::string join_address(const std::string& host, std::uint16_t port);
std::string describe(const sockaddr_storage& address);
Result<sockaddr_storage> local_address(int fd);

/// No delay; a peer whose host stays silent for `silence` (RONDEL_SILENCE_TIMEOUT_S) ends the connection with
/// an error, a second before that: the last sign of life may be a beat old. At least two seconds.
inline constexpr std::chrono::milliseconds kUsualSilence{10'000};
void set_stream_options(int fd, std::chrono::milliseconds silence);

/// What stands for every address of this host: of IPv6, which takes IPv4 as well, unless the kernel is
/// without.
const char* any_address();
/// Listens on a numeric address only. unavailable names address and port and, where readable, who holds them.
Result<UniqueFd> listen_on(const std::string& address, std::uint16_t port);

/// Waits until `fd` has one of `events` (poll.h) or the deadline passes: false.
Result<bool> await_events(int fd, short events, Deadline deadline);
/// Sends everything. After a timed_out the stream is cut in the middle of a message: close it.
Status send_all(int fd, std::span<const std::byte> bytes, Deadline deadline);
/// Receives at least one byte; unavailable when the peer has closed the connection.
Result<std::size_t> receive_some(int fd, std::span<std::byte> into, Deadline deadline);

}  // namespace rondel::store
