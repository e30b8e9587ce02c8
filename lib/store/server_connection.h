// SPDX-License-Identifier: Apache-2.0
// ServerConnection: one client of the job's server: its socket, its handshake, its frames, and what is still
// to be sent to it. Never blocks. Owned by the server; the server's thread only.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <span>
#include <string>

#include "lib/auth.h"
#include "lib/deadline.h"
#include "lib/frame.h"
#include "lib/memory.h"
#include "lib/private_fd.h"
#include "lib/status.h"
#include "lib/unique_fd.h"

namespace rondel::store {

class ServerConnection {
 public:
  enum class Role : std::uint8_t { stranger, store, member };

  /// `self` is the responder's payload: what the server says of itself. Null when no randomness is to be had.
  static Result<std::unique_ptr<ServerConnection>> accept(UniqueFd fd, std::string peer, const Secret& secret,
                                                          std::span<const std::byte> self,
                                                          Deadline handshake_due,
                                                          std::chrono::milliseconds silence);

  /// Takes what has arrived and gives each whole frame to `use`. A failure ends the connection; ok with
  /// ended() when the client closed it.
  using Use = std::function<Status(std::span<const std::byte> body)>;
  Status receive(const Use& use);
  bool ended() const { return ended_; }

  /// Queues one frame and sends what the socket takes. After a failure the next receive() finds the end.
  Status send(std::span<const std::byte> body);
  Status flush();
  bool has_unsent() const { return sent_ < unsent_.size(); }

  Role role() const { return role_; }
  int fd() const { return fd_.get(); }
  const std::string& peer() const { return peer_; }
  Deadline handshake_due() const { return handshake_due_; }

 private:
  ServerConnection(UniqueFd fd, std::string peer, Handshake handshake, Deadline handshake_due);
  Status queue(std::span<const std::byte> bytes);
  Status take_handshake(std::span<const std::byte> received);
  Status take_frames(std::span<const std::byte> received, const Use& use);

  const PrivateFd fd_;
  const std::string peer_;
  const Deadline handshake_due_;
  Handshake handshake_;
  FrameReader reader_;
  Role role_ = Role::stranger;
  bool ended_ = false;
  Bytes unsent_;
  std::size_t sent_ = 0;
};

}  // namespace rondel::store
