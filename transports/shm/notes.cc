// SPDX-License-Identifier: Apache-2.0
#include "transports/shm/notes.h"

#include <fmt/format.h>
#include <sys/socket.h>

#include <array>
#include <cerrno>
#include <cstring>
#include <iterator>

namespace rondel::shm {
namespace {

constexpr std::uint32_t kMagic = 0x314d4853;  // "SHM1"
constexpr std::uint32_t kVersion = 2;         // of notes, segments, and what stands on boards

struct alignas(cmsghdr) DescriptorRoom {
  char bytes[CMSG_SPACE(sizeof(int))];
};

UniqueFd descriptor_in(msghdr& message) {
  const cmsghdr* const control = CMSG_FIRSTHDR(&message);
  if (control == nullptr || control->cmsg_level != SOL_SOCKET || control->cmsg_type != SCM_RIGHTS) return {};
  int fd = -1;
  std::memcpy(&fd, CMSG_DATA(control), sizeof fd);
  return UniqueFd(fd);
}

}  // namespace

Note make_note(NoteKind kind) {
  Note note;
  note.magic = kMagic;
  note.version = kVersion;
  note.kind = kind;
  return note;
}

namespace {

bool send_parts(int socket, std::span<iovec> parts, int fd) {
  msghdr message{};
  message.msg_iov = parts.data();
  message.msg_iovlen = parts.size();
  DescriptorRoom room{};
  if (fd >= 0) {
    message.msg_control = room.bytes;
    message.msg_controllen = sizeof room.bytes;
    cmsghdr* const control = CMSG_FIRSTHDR(&message);
    control->cmsg_level = SOL_SOCKET;
    control->cmsg_type = SCM_RIGHTS;
    control->cmsg_len = CMSG_LEN(sizeof fd);
    std::memcpy(CMSG_DATA(control), &fd, sizeof fd);
  }
  ssize_t sent = -1;
  do sent = ::sendmsg(socket, &message, MSG_DONTWAIT | MSG_NOSIGNAL);
  while (sent < 0 && errno == EINTR);
  return sent >= 0;  // a datagram goes whole or not at all
}

}  // namespace

bool send_note(int socket, const Note& note, int fd) {
  iovec part{const_cast<Note*>(&note), sizeof note};
  return send_parts(socket, {&part, 1}, fd);
}

bool send_refill(int socket, std::span<const std::byte> bytes) {
  Note note = make_note(NoteKind::refill);
  iovec parts[] = {{&note, sizeof note}, {const_cast<std::byte*>(bytes.data()), bytes.size()}};
  return send_parts(socket, parts, -1);
}

Result<std::optional<ReceivedNote>> receive_note(int socket) {
  ReceivedNote received;
  std::array<std::byte, kRefillBytes> behind;
  iovec parts[] = {{&received.note, sizeof received.note}, {behind.data(), behind.size()}};
  DescriptorRoom room{};
  msghdr message{};
  message.msg_iov = parts;
  message.msg_iovlen = std::size(parts);
  message.msg_control = room.bytes;
  message.msg_controllen = sizeof room.bytes;
  // A peer that closes with notes unread makes the next call fail, once, before what it had sent is read.
  ssize_t got = -1;
  do got = ::recvmsg(socket, &message, MSG_DONTWAIT | MSG_CMSG_CLOEXEC);
  while (got < 0 && (errno == EINTR || errno == ECONNRESET));
  if (got < 0 && (errno == EAGAIN || errno == EWOULDBLOCK)) return std::optional<ReceivedNote>();
  if (got < 0) return system_failure(Code::peer_lost, "its connection broke", errno);
  if (got == 0) return Status(Code::peer_lost, "its process ended or closed the connection");
  received.fd = descriptor_in(message);
  received.lost_fd = (message.msg_flags & MSG_CTRUNC) != 0;
  const auto bytes = static_cast<std::size_t>(got);
  const bool refill = received.note.kind == NoteKind::refill;
  if (bytes < sizeof received.note || received.note.magic != kMagic ||
      (bytes > sizeof received.note) != refill)
    return Status(Code::refused, "it sent something that is no note of Rondel's");
  if (received.note.version != kVersion)
    return Status(
        Code::refused,
        fmt::format("it speaks version {} of shared memory, this rank {}", received.note.version, kVersion),
        "run the same build of Rondel on every rank");
  received.bytes.assign(behind.begin(),
                        behind.begin() + static_cast<std::ptrdiff_t>(bytes - sizeof received.note));
  return std::optional<ReceivedNote>(std::move(received));
}

}  // namespace rondel::shm
