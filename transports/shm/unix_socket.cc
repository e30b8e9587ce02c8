// SPDX-License-Identifier: Apache-2.0
#include "transports/shm/unix_socket.h"

#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstddef>
#include <cstring>
#include <utility>

#include "lib/auth.h"
#include "lib/hexadecimal.h"
#include "lib/unique_fd.h"

namespace rondel::shm {
namespace {

constexpr int kBacklog = 512;

socklen_t abstract_address(const std::string& name, sockaddr_un& address) {
  address = {};
  address.sun_family = AF_UNIX;
  std::memcpy(address.sun_path + 1, name.data(), std::min(name.size(), sizeof address.sun_path - 1));
  return static_cast<socklen_t>(offsetof(sockaddr_un, sun_path) + 1 + name.size());
}

}  // namespace

Result<std::string> unguessable_name() {
  const auto secret = Secret::generate();
  RONDEL_TRY(secret);
  return "rondel-" + hexadecimal(secret->bytes().first(16));
}

Result<PrivateFd> make_socket() {
  PrivateFd socket(UniqueFd(::socket(AF_UNIX, SOCK_SEQPACKET | SOCK_NONBLOCK | SOCK_CLOEXEC, 0)));
  if (!socket) return system_failure(Code::out_of_resources, "opening a Unix socket", errno);
  return socket;
}

Result<PrivateFd> listen_at(const std::string& name) {
  auto socket = make_socket();
  RONDEL_TRY(socket);
  sockaddr_un address;
  const socklen_t length = abstract_address(name, address);
  if (::bind(socket->get(), reinterpret_cast<sockaddr*>(&address), length) != 0 ||
      ::listen(socket->get(), kBacklog) != 0)
    return system_failure(Code::unavailable, "listening on a Unix socket", errno);
  return socket;
}

int connect_to(const PrivateFd& socket, const std::string& name) {
  sockaddr_un address;
  const socklen_t length = abstract_address(name, address);
  return ::connect(socket.get(), reinterpret_cast<const sockaddr*>(&address), length) == 0 ? 0 : errno;
}

SocketPeer peer_of(const PrivateFd& socket) {
  ucred peer{};
  socklen_t length = sizeof peer;
  if (::getsockopt(socket.get(), SOL_SOCKET, SO_PEERCRED, &peer, &length) != 0) return {};
  return {.user = peer.uid, .process = peer.pid};
}

Status check_user(const PrivateFd& socket) {
  if (peer_of(socket).user == ::geteuid()) return {};
  return Status(Code::refused, "its socket belongs to another user", "run all ranks as one user");
}

}  // namespace rondel::shm
