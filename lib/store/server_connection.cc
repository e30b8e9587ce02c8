// SPDX-License-Identifier: Apache-2.0
#include "lib/store/server_connection.h"

#include <sys/socket.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <string_view>
#include <utility>

#include "lib/store/dial.h"
#include "lib/store/protocol.h"
#include "lib/store/socket.h"
#include "lib/wire.h"

namespace rondel::store {
namespace {

/// What a client that does not read may have waiting: a few values.
constexpr std::size_t kUnsentLimit = 8 * kFrameLimit;
bool closed_by_peer(int error) { return error == ECONNRESET || error == EPIPE; }

constexpr int kReadsPerTurn = 16;  // so that one client can not keep the others waiting

bool is(std::span<const std::byte> payload, std::string_view role) {
  return std::ranges::equal(payload, wire::as_bytes(role));
}

Status judge(std::span<const std::byte> payload) {
  if (is(payload, kStoreRole) || is(payload, kMemberRole)) return {};
  return Status(Code::refused,
                "this is the job's server, which has a store and liveness, not what was asked for");
}

}  // namespace

ServerConnection::ServerConnection(UniqueFd fd, std::string peer, Handshake handshake, Deadline handshake_due)
    : fd_(std::move(fd)),
      peer_(std::move(peer)),
      handshake_due_(handshake_due),
      handshake_(std::move(handshake)),
      reader_(kFrameLimit) {}

Result<std::unique_ptr<ServerConnection>> ServerConnection::accept(UniqueFd fd, std::string peer,
                                                                   const Secret& secret,
                                                                   std::span<const std::byte> self,
                                                                   Deadline handshake_due,
                                                                   std::chrono::milliseconds silence) {
  auto handshake = Handshake::responder(secret, self, judge);
  if (!handshake.ok()) return std::move(handshake).status();
  set_stream_options(fd.get(), silence);
  return std::unique_ptr<ServerConnection>(
      new ServerConnection(std::move(fd), std::move(peer), std::move(*handshake), handshake_due));
}

Status ServerConnection::receive(const Use& use) {
  std::array<std::byte, 64 * 1024> piece;
  for (int turn = 0; turn < kReadsPerTurn; ++turn) {
    const bool shaking = role_ == Role::stranger;
    const std::size_t wanted = shaking ? std::min(handshake_.wants(), piece.size()) : piece.size();
    const ssize_t got = ::recv(fd_.get(), piece.data(), wanted, 0);
    if (got < 0 && errno == EINTR) continue;
    if (got < 0 && errno == EAGAIN) return {};
    if (got < 0 && !closed_by_peer(errno)) return system_failure(Code::io_error, "receiving", errno);
    if (got <= 0) {
      ended_ = true;
      return {};
    }
    const auto received = std::span<const std::byte>(piece).first(static_cast<std::size_t>(got));
    RONDEL_TRY(shaking ? take_handshake(received) : take_frames(received, use));
  }
  return {};  // level-triggered: what is left wakes the server again
}

Status ServerConnection::take_handshake(std::span<const std::byte> received) {
  const auto reply = handshake_.feed(received);
  if (!reply.ok()) {
    static_cast<void>(queue(handshake_.farewell()));
    static_cast<void>(flush());  // what does not leave now is lost
    return reply.status();
  }
  RONDEL_TRY(queue(*reply));
  if (handshake_.done()) role_ = is(handshake_.peer_payload(), kStoreRole) ? Role::store : Role::member;
  return flush();
}

Status ServerConnection::take_frames(std::span<const std::byte> received, const Use& use) {
  reader_.add(received);
  for (;;) {
    const auto body = reader_.next();
    if (!body.ok()) return body.status();
    if (!body->has_value()) return {};
    RONDEL_TRY(use(**body));
  }
}

Status ServerConnection::send(std::span<const std::byte> body) {
  Status sent = queue(framed(body));
  if (sent.ok()) sent = flush();
  if (!sent.ok()) static_cast<void>(::shutdown(fd_.get(), SHUT_RDWR));
  return sent;
}

Status ServerConnection::queue(std::span<const std::byte> bytes) {
  if (unsent_.size() - sent_ + bytes.size() > kUnsentLimit)
    return Status(Code::out_of_resources, "the client does not read what it is sent");
  unsent_.insert(unsent_.end(), bytes.begin(), bytes.end());
  return {};
}

Status ServerConnection::flush() {
  while (has_unsent()) {
    const ssize_t sent = ::send(fd_.get(), unsent_.data() + sent_, unsent_.size() - sent_, MSG_NOSIGNAL);
    if (sent < 0 && errno == EINTR) continue;
    if (sent < 0 && errno == EAGAIN) return {};
    if (sent < 0 && closed_by_peer(errno)) return {};  // receive() will find the end
    if (sent < 0) return system_failure(Code::io_error, "sending", errno);
    sent_ += static_cast<std::size_t>(sent);
  }
  unsent_.clear();
  sent_ = 0;
  return {};
}

}  // namespace rondel::store
