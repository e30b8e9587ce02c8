// SPDX-License-Identifier: Apache-2.0
#include "tests/support/silent_host.h"

#include <linux/filter.h>
#include <linux/sockios.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <sys/ioctl.h>
#include <sys/resource.h>
#include <sys/socket.h>

#include <algorithm>
#include <chrono>
#include <thread>

#include "lib/deadline.h"

namespace rondel::test {
namespace {

/// The port of a connected TCP socket's own end, 0 for everything else.
int local_port_of(int socket) {
  int protocol = 0;
  socklen_t bytes = sizeof protocol;
  if (::getsockopt(socket, SOL_SOCKET, SO_PROTOCOL, &protocol, &bytes) != 0 || protocol != IPPROTO_TCP)
    return 0;
  sockaddr_storage address{};
  bytes = sizeof address;
  if (::getpeername(socket, reinterpret_cast<sockaddr*>(&address), &bytes) != 0) return 0;
  bytes = sizeof address;
  if (::getsockname(socket, reinterpret_cast<sockaddr*>(&address), &bytes) != 0) return 0;
  return ntohs(address.ss_family == AF_INET ? reinterpret_cast<const sockaddr_in&>(address).sin_port
                                            : reinterpret_cast<const sockaddr_in6&>(address).sin6_port);
}

}  // namespace

bool silence(int socket) {
  // Whatever is not acknowledged would be sent again and again, which is no silence.
  const Deadline deadline = Deadline::in(std::chrono::seconds(5));
  for (int unacknowledged = 1; unacknowledged > 0; std::this_thread::yield())
    if (::ioctl(socket, SIOCOUTQ, &unacknowledged) != 0 || deadline.passed()) return false;
  // Nor may this end itself probe, give up and reset a connection on which it hears nothing any more.
  const int off = 0, never_ms = 0x7fffffff;
  sock_filter keep_nothing = BPF_STMT(BPF_RET | BPF_K, 0);
  const sock_fprog program{.len = 1, .filter = &keep_nothing};
  return ::setsockopt(socket, SOL_SOCKET, SO_KEEPALIVE, &off, sizeof off) == 0 &&
         ::setsockopt(socket, IPPROTO_TCP, TCP_USER_TIMEOUT, &never_ms, sizeof never_ms) == 0 &&
         ::setsockopt(socket, SOL_SOCKET, SO_ATTACH_FILTER, &program, sizeof program) == 0;
}

std::size_t silence_connections(int local_port) {
  rlimit limit{};
  ::getrlimit(RLIMIT_NOFILE, &limit);
  std::size_t silenced = 0;
  for (int fd = 0; fd < static_cast<int>(std::min<rlim_t>(limit.rlim_cur, 65'536)); ++fd) {
    const int port = local_port_of(fd);
    if (port != 0 && (local_port == 0 || port == local_port) && silence(fd)) ++silenced;
  }
  return silenced;
}

}  // namespace rondel::test
