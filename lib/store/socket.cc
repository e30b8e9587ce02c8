// SPDX-License-Identifier: Apache-2.0
#include "lib/store/socket.h"

#include <fmt/format.h>
#include <netdb.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <poll.h>

#include <cerrno>
#include <cstring>
#include <memory>

#include "lib/store/port_holder.h"

namespace rondel::store {
namespace {

constexpr int kBacklog = 1024;  // a job's ranks all come at once

void set_option(int fd, int level, int option, int value) {
  // Every option is a refinement: a kernel without it still gives a connection that works.
  static_cast<void>(::setsockopt(fd, level, option, &value, sizeof(value)));
}

}  // namespace

Result<HostPort> parse_address(const std::string& address) {
  const auto colon = address.rfind(':');
  const bool bracketed = !address.empty() && address.front() == '[';
  const auto close = address.find(']');
  HostPort parts;
  if (colon != std::string::npos) {
    parts.host = address.substr(0, colon);
    parts.port = address.substr(colon + 1);
  }
  bool good = !parts.host.empty() && !parts.port.empty() && parts.port.size() <= 5 &&
              parts.port.find_first_not_of("0123456789") == std::string::npos;
  if (bracketed) {
    good = good && close != std::string::npos && close + 1 == colon && close > 1;
    if (good) parts.host = address.substr(1, close - 1);
  } else {
    good = good && parts.host.find_first_of(":[]") == std::string::npos;
  }
  if (good) good = std::stoi(parts.port) >= 1 && std::stoi(parts.port) <= 65535;
  if (!good)
    return Status(Code::invalid_argument, fmt::format("'{}' is no address", address),
                  "write host:port or [IPv6]:port, with a port from 1 to 65535");
  return parts;
}

std::string join_address(const std::string& host, std::uint16_t port) {
  return host.find(':') == std::string::npos ? fmt::format("{}:{}", host, port)
                                             : fmt::format("[{}]:{}", host, port);
}

std::string describe(const sockaddr_storage& address) {
  char host[NI_MAXHOST] = "";
  char port[NI_MAXSERV] = "";
  const socklen_t bytes = address.ss_family == AF_INET ? sizeof(sockaddr_in) : sizeof(sockaddr_in6);
  if (::getnameinfo(reinterpret_cast<const sockaddr*>(&address), bytes, host, sizeof(host), port,
                    sizeof(port), NI_NUMERICHOST | NI_NUMERICSERV) != 0)
    return "an unknown address";
  return join_address(host, static_cast<std::uint16_t>(std::strtoul(port, nullptr, 10)));
}

Result<sockaddr_storage> local_address(int fd) {
  sockaddr_storage address{};
  socklen_t bytes = sizeof(address);
  if (::getsockname(fd, reinterpret_cast<sockaddr*>(&address), &bytes) != 0)
    return system_failure(Code::io_error, "reading a socket's address", errno);
  return address;
}

void set_stream_options(int fd, std::chrono::milliseconds silence) {
  constexpr std::chrono::seconds kShortest{2}, kLongest{32'767};  // the kernel's limit on TCP_KEEPIDLE
  const auto limit =
      std::clamp<std::chrono::milliseconds>(silence - std::chrono::seconds(1), kShortest, kLongest);
  const int seconds = static_cast<int>(limit.count() / 1000);
  const int idle = std::max(1, seconds / 3);
  set_option(fd, IPPROTO_TCP, TCP_NODELAY, 1);
  set_option(fd, SOL_SOCKET, SO_KEEPALIVE, 1);
  set_option(fd, IPPROTO_TCP, TCP_KEEPIDLE, idle);
  set_option(fd, IPPROTO_TCP, TCP_KEEPINTVL, std::max(1, (seconds - idle) / 6));
  set_option(fd, IPPROTO_TCP, TCP_KEEPCNT, std::min(6, seconds - idle));
  set_option(fd, IPPROTO_TCP, TCP_USER_TIMEOUT, static_cast<int>(limit.count()));
}

const char* any_address() {
  const UniqueFd fd(::socket(AF_INET6, SOCK_STREAM | SOCK_CLOEXEC, 0));
  const sockaddr_in6 any{.sin6_family = AF_INET6};
  return fd && ::bind(fd.get(), reinterpret_cast<const sockaddr*>(&any), sizeof any) == 0 ? "::" : "0.0.0.0";
}

Result<UniqueFd> listen_on(const std::string& address, std::uint16_t port) {
  addrinfo hints{};
  hints.ai_flags = AI_NUMERICHOST | AI_NUMERICSERV | AI_PASSIVE;
  hints.ai_socktype = SOCK_STREAM;
  addrinfo* found = nullptr;
  if (::getaddrinfo(address.c_str(), std::to_string(port).c_str(), &hints, &found) != 0)
    return Status(Code::invalid_argument, fmt::format("'{}' is no numeric address to listen on", address),
                  "give an IPv4 or IPv6 address of this host, such as 127.0.0.1");
  const std::unique_ptr<addrinfo, decltype(&::freeaddrinfo)> owned(found, ::freeaddrinfo);
  UniqueFd fd(::socket(found->ai_family, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0));
  if (!fd) return system_failure(Code::out_of_resources, "opening a socket to listen on", errno);
  set_option(fd.get(), SOL_SOCKET, SO_REUSEADDR, 1);
  const bool bound = ::bind(fd.get(), found->ai_addr, found->ai_addrlen) == 0;
  if (bound && ::listen(fd.get(), kBacklog) == 0) return fd;
  const int error = errno;
  const std::string holder = error == EADDRINUSE ? describe_port_holder(port) : std::string();
  return system_failure(Code::unavailable,
                        fmt::format("listening on {}{}", join_address(address, port), holder), error,
                        error == EADDRINUSE ? "stop that process, or choose another port (0: any free one)"
                                            : "choose an address of this host");
}

Result<bool> await_events(int fd, short events, Deadline deadline) {
  pollfd entry{fd, events, 0};
  for (;;) {
    const int ready = ::poll(&entry, 1, deadline.left_ms());
    if (ready > 0) return true;
    if (ready < 0 && errno != EINTR) return system_failure(Code::io_error, "waiting for a socket", errno);
    if (deadline.passed()) return false;
  }
}

Status send_all(int fd, std::span<const std::byte> bytes, Deadline deadline) {
  while (!bytes.empty()) {
    const ssize_t sent = ::send(fd, bytes.data(), bytes.size(), MSG_NOSIGNAL);
    if (sent >= 0) {
      bytes = bytes.subspan(static_cast<std::size_t>(sent));
    } else if (errno == EAGAIN) {
      const auto ready = await_events(fd, POLLOUT, deadline);
      if (!ready.ok()) return ready.status();
      if (!*ready) return Status(Code::timed_out, "the peer did not take what was sent in time");
    } else if (errno != EINTR) {
      return system_failure(Code::unavailable, "sending", errno);
    }
  }
  return {};
}

Result<std::size_t> receive_some(int fd, std::span<std::byte> into, Deadline deadline) {
  for (;;) {
    const ssize_t got = ::recv(fd, into.data(), into.size(), 0);
    if (got > 0) return static_cast<std::size_t>(got);
    if (got == 0) return Status(Code::unavailable, "the peer closed the connection");
    if (errno == EINTR) continue;
    if (errno != EAGAIN) return system_failure(Code::unavailable, "receiving", errno);
    const auto ready = await_events(fd, POLLIN, deadline);
    if (!ready.ok()) return ready.status();
    if (!*ready) return Status(Code::timed_out, "nothing was received in time");
  }
}

}  // namespace rondel::store
