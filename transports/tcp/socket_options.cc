// SPDX-License-Identifier: Apache-2.0
#include "transports/tcp/socket_options.h"

#include <linux/tcp.h>  // after netinet/in.h; has the newer fields of tcp_info
#include <netinet/in.h>
#include <sys/socket.h>

#include <algorithm>
#include <string_view>

namespace rondel::tcp {
namespace {

void set_option(int socket, int level, int name, int value) {
  ::setsockopt(socket, level, name, &value, sizeof value);
}

bool read_tcp_info(int socket, tcp_info& info) {
  socklen_t length = sizeof info;
  return ::getsockopt(socket, IPPROTO_TCP, TCP_INFO, &info, &length) == 0;
}

bool set_congestion(int socket, std::string_view name) {
  return ::setsockopt(socket, IPPROTO_TCP, TCP_CONGESTION, name.data(),
                      static_cast<socklen_t>(name.size())) == 0;
}

// On links this short a loss-based algorithm is right, and pacing (bbr) halves the speed of loopback.
constexpr std::uint32_t kShortRttUs = 1000;

void choose_congestion(int socket) {
  tcp_info info{};
  if (!read_tcp_info(socket, info) || info.tcpi_rtt >= kShortRttUs) return;
  if (!set_congestion(socket, "cubic")) set_congestion(socket, "reno");
}

}  // namespace

void apply(const SocketPolicy& policy, int socket) {
  set_option(socket, IPPROTO_TCP, TCP_NODELAY, 1);
  const auto seconds = std::max<int>(1, static_cast<int>(policy.silence.count() / 1000));
  set_option(socket, SOL_SOCKET, SO_KEEPALIVE, 1);
  set_option(socket, IPPROTO_TCP, TCP_KEEPIDLE, std::max(1, seconds / 2));
  set_option(socket, IPPROTO_TCP, TCP_KEEPINTVL, std::max(1, seconds / 6));
  set_option(socket, IPPROTO_TCP, TCP_KEEPCNT, 3);
  const auto user_timeout = std::max(policy.user_timeout, policy.silence);
  set_option(socket, IPPROTO_TCP, TCP_USER_TIMEOUT, static_cast<int>(user_timeout.count()));
  if (policy.congestion == "auto")
    choose_congestion(socket);
  else if (policy.congestion != "system")
    set_congestion(socket, policy.congestion);
}

std::chrono::milliseconds unanswered_for(int socket) {
  tcp_info info{};
  if (!read_tcp_info(socket, info)) return {};
  const bool unanswered = info.tcpi_retransmits > 0 || info.tcpi_probes > 1;
  return std::chrono::milliseconds(unanswered ? info.tcpi_last_ack_recv : 0);
}

}  // namespace rondel::tcp
