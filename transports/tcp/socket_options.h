// SPDX-License-Identifier: Apache-2.0
// The socket options of a link, and what the kernel says about a connection's health. Buffer sizes are left
// to the kernel's autotuning on purpose: fixed ones cost throughput. Any thread.
#pragma once

#include <chrono>
#include <string>

#include "lib/status.h"

namespace rondel::tcp {

struct SocketPolicy {
  std::string congestion = "auto";            ///< RONDEL_TCP_CONGESTION
  std::chrono::milliseconds silence{10'000};  ///< after this without a sign of life a peer counts as lost
  std::chrono::milliseconds user_timeout{300'000};  ///< TCP_USER_TIMEOUT: see `unanswered_for`
};

/// Asio does not; a program that a rank starts would keep the socket open after the rank's end.
void close_on_exec(int socket);

/// Whether RONDEL_TCP_CONGESTION can be had: auto, system, or an algorithm that the kernel has and lets this
/// process use. invalid_argument lists them.
Status check_congestion(const std::string& name);

/// Applies the policy to a connected socket.
void apply(const SocketPolicy& policy, int socket);

/// How long the kernel has been retransmitting or probing without any answer; zero while the peer's kernel
/// answers. A peer that merely does not read (it computes, it is stopped) answers, and so never counts: that
/// is why TCP_USER_TIMEOUT, which counts such a peer as dead, is set to the operation timeout instead of the
/// silence limit.
std::chrono::milliseconds unanswered_for(int socket);

}  // namespace rondel::tcp
