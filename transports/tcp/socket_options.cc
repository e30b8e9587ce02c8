// SPDX-License-Identifier: Apache-2.0
#include "transports/tcp/socket_options.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <linux/tcp.h>  // after netinet/in.h; has the newer fields of tcp_info
#include <netinet/in.h>
#include <sys/socket.h>

#include <algorithm>
#include <cerrno>
#include <fstream>
#include <string_view>

#include "lib/unique_fd.h"

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

void close_on_exec(int socket) { ::fcntl(socket, F_SETFD, FD_CLOEXEC); }

Status check_congestion(const std::string& name) {
  if (name == "auto" || name == "system") return {};
  const UniqueFd socket(::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0));
  if (!socket) return {};  // which the listener is about to say better
  if (set_congestion(socket.get(), name)) return {};
  const char* const why = errno == EPERM ? "this process may not use it" : "the kernel does not have it";
  std::ifstream list("/proc/sys/net/ipv4/tcp_allowed_congestion_control");
  std::string allowed;
  std::getline(list, allowed);
  return Status(Code::invalid_argument, fmt::format("RONDEL_TCP_CONGESTION={}: {}", name, why),
                fmt::format("auto, system, or one of: {}", allowed));
}

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
