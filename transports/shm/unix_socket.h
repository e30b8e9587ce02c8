// SPDX-License-Identifier: Apache-2.0
// Unix sockets in the abstract namespace: without a place in the file system, of one network namespace, and
// gone with their last descriptor. Any thread.
#pragma once

#include <sys/types.h>

#include <string>

#include "lib/private_fd.h"
#include "lib/status.h"

namespace rondel::shm {

/// "rondel-" and what nobody could guess.
Result<std::string> unguessable_name();
Result<PrivateFd> listen_at(const std::string& name);
/// 0 when `socket` is connected to who listens at `name`, else errno; EAGAIN when its queue is full.
int connect_to(const PrivateFd& socket, const std::string& name);
Result<PrivateFd> make_socket();

struct SocketPeer {
  uid_t user = static_cast<uid_t>(-1);  ///< as this process's user namespace calls it
  pid_t process = 0;
};
SocketPeer peer_of(const PrivateFd& socket);
/// refused: who listens at the other end is another user, who must not share memory with this one.
Status check_user(const PrivateFd& socket);

}  // namespace rondel::shm
