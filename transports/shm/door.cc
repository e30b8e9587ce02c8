// SPDX-License-Identifier: Apache-2.0
#include "transports/shm/door.h"

#include <fmt/format.h>
#include <poll.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

#include <algorithm>
#include <bit>
#include <cerrno>
#include <cstddef>
#include <cstring>
#include <utility>

#include "lib/log.h"
#include "lib/wire.h"
#include "transports/shm/pull.h"

namespace rondel::shm {
namespace {

constexpr int kBacklog = 512;
constexpr std::size_t kMostCallers = 64;
constexpr std::size_t kNameLimit = 64;

/// In the abstract namespace: the kernel forgets it with the socket, and it belongs to the network namespace.
socklen_t abstract_address(const std::string& name, sockaddr_un& address) {
  address = {};
  address.sun_family = AF_UNIX;
  std::memcpy(address.sun_path + 1, name.data(), std::min(name.size(), sizeof address.sun_path - 1));
  return static_cast<socklen_t>(offsetof(sockaddr_un, sun_path) + 1 + name.size());
}

PrivateFd make_socket() {
  return PrivateFd(UniqueFd(::socket(AF_UNIX, SOCK_SEQPACKET | SOCK_NONBLOCK | SOCK_CLOEXEC, 0)));
}

// In the same time whatever differs.
bool equal(std::span<const std::byte> a, std::span<const std::byte> b) {
  if (a.size() != b.size()) return false;
  std::byte difference{0};
  for (std::size_t i = 0; i < a.size(); ++i) difference |= a[i] ^ b[i];
  return difference == std::byte{0};
}

ucred peer_of(int socket) {
  ucred peer{};
  socklen_t length = sizeof peer;
  if (::getsockopt(socket, SOL_SOCKET, SO_PEERCRED, &peer, &length) != 0) peer.uid = static_cast<uid_t>(-1);
  return peer;
}

std::string hex(std::span<const std::byte> bytes) {
  std::string text;
  for (const std::byte byte : bytes) text += fmt::format("{:02x}", static_cast<unsigned>(byte));
  return text;
}

Status about(Rank peer, Code code, std::string cause, std::string hint = {}) {
  Failure failure;
  failure.peer = peer;
  failure.cause = std::move(cause);
  failure.hint = std::move(hint);
  return Status(code, std::move(failure));
}

}  // namespace

Bytes encode(const DoorAddress& address) {
  return wire::Writer().text(address.name).blob(address.token).take();
}

Result<DoorAddress> decode_door_address(std::span<const std::byte> bytes) {
  wire::Reader reader(bytes);
  DoorAddress address;
  address.name = reader.text(kNameLimit);
  const auto token = reader.blob(Secret::kBytes);
  address.token.assign(token.begin(), token.end());
  if (!reader.finished() || address.name.empty() || address.token.size() != Secret::kBytes)
    return Status(Code::refused, "its address is none of shared memory");
  return address;
}

Result<std::unique_ptr<Door>> Door::open(const Options& options) {
  const auto token = Secret::generate(), name = Secret::generate();
  RONDEL_TRY(token);
  RONDEL_TRY(name);
  std::unique_ptr<Door> door(new Door(options));
  door->address_.token.assign(token->bytes().begin(), token->bytes().end());
  door->address_.name = "rondel-" + hex(name->bytes().first(16));
  std::memcpy(&door->probe_value_, name->bytes().subspan(16).data(), sizeof door->probe_value_);
  door->listener_ = make_socket();
  sockaddr_un address;
  const socklen_t length = abstract_address(door->address_.name, address);
  if (!door->listener_ || ::bind(door->listener_.get(), reinterpret_cast<sockaddr*>(&address), length) != 0 ||
      ::listen(door->listener_.get(), kBacklog) != 0)
    return system_failure(Code::unavailable, "listening on a Unix socket", errno);
  if (options.pull) allow_pulling();
  return door;
}

// ---- dialling

Status Door::dial(Rank peer, std::span<const std::byte> address) {
  if (dialled_.contains(peer)) return {};
  const auto where = decode_door_address(address);
  if (!where.ok()) return about(peer, where.code(), where.status().failure().cause);
  PrivateFd socket = make_socket();
  if (!socket) return system_failure(Code::out_of_resources, "opening a Unix socket", errno);
  sockaddr_un target;
  const socklen_t length = abstract_address(where->name, target);
  if (::connect(socket.get(), reinterpret_cast<const sockaddr*>(&target), length) != 0) {
    if (errno == EAGAIN) return {};  // its queue is full: the next call tries again
    if (errno == ECONNREFUSED) return about(peer, Code::peer_lost, "it has closed its endpoint");
    return system_failure(Code::unavailable, "connecting to a Unix socket", errno);
  }
  if (peer_of(socket.get()).uid != ::geteuid())
    return about(peer, Code::refused, "its socket belongs to another user", "run all ranks as one user");
  auto segment = SegmentHold::create();
  RONDEL_TRY(segment);
  Note hello = make_note(NoteKind::hello);
  greet_back(hello, where->token);
  if (!send_note(socket.get(), hello, segment->fd()))
    return about(peer, Code::peer_lost, "it closed the connection");
  dialled_.emplace(peer, Dialled{std::move(socket), std::move(segment).value()});
  return {};
}

void Door::greet_back(Note& note, std::span<const std::byte> token) const {
  std::copy(token.begin(), token.end(), std::begin(note.token));
  note.rank = options_.rank;
  if (!options_.pull) return;
  note.probe_address = reinterpret_cast<std::uintptr_t>(&probe_value_);
  note.probe_value = probe_value_;
}

Door::Guest Door::make_guest(Rank peer, PrivateFd socket, SegmentHold segment, int side,
                             const Note& theirs) const {
  const pid_t pid = peer_of(socket.get()).pid;
  if (options_.pull && can_pull(pid, theirs.probe_address, theirs.probe_value))
    segment->side[side].can_pull.store(
        1, std::memory_order_relaxed);  // a peer that sees it late copies meanwhile
  return {peer, Connection{std::move(socket), std::move(segment), side, pid}};
}

// True once `peer`, which was dialled, has answered.
Result<bool> Door::hear_welcome(Rank peer, Guest& guest) {
  const auto found = dialled_.find(peer);
  if (found == dialled_.end()) return false;
  auto got = receive_note(found->second.socket.get());
  if (got.ok() && !*got) return false;
  Dialled dialled = std::move(found->second);
  dialled_.erase(found);
  if (!got.ok()) return about(peer, got.code(), got.status().failure().cause, got.status().failure().hint);
  if ((*got)->note.kind != NoteKind::welcome || !equal((*got)->note.token, address_.token))
    return about(peer, Code::refused, "it does not know this rank's token");
  guest = make_guest(peer, std::move(dialled.socket), std::move(dialled.segment), 0, (*got)->note);
  return true;
}

// ---- being dialled

void Door::accept_callers() {
  while (callers_.size() < kMostCallers) {
    PrivateFd socket(UniqueFd(::accept4(listener_.get(), nullptr, nullptr, SOCK_NONBLOCK | SOCK_CLOEXEC)));
    if (!socket) return;
    if (peer_of(socket.get()).uid != ::geteuid()) continue;
    callers_.push_back({std::move(socket), Deadline::in(options_.greeting_limit)});
  }
}

void Door::hear_callers() {
  std::erase_if(callers_, [this](Caller& caller) {
    auto got = receive_note(caller.socket.get());
    if (got.ok() && !*got) return caller.due.passed();
    const Status seated = got.ok() ? seat(caller, std::move(**got)) : got.status();
    if (!seated.ok() && seated.code() != Code::peer_lost && std::has_single_bit(++strangers_))
      log(LogLevel::warn, "closed a connection from process {}: {} ({} so far)",
          peer_of(caller.socket.get()).pid, seated.text(), strangers_);
    return true;
  });
}

Status Door::seat(Caller& caller, ReceivedNote hello) {
  const Note& note = hello.note;
  if (note.kind != NoteKind::hello || !equal(note.token, address_.token))
    return Status(Code::refused, "it does not know this endpoint's token");
  if (note.rank < 0 || note.rank >= options_.rank || !hello.fd)
    return Status(Code::refused, fmt::format("rank {} can not dial this rank", note.rank));
  auto segment = SegmentHold::map(hello.fd.get());
  RONDEL_TRY(segment);
  waiting_.insert_or_assign(note.rank, Waiting{std::move(caller.socket), std::move(segment).value(), note});
  return {};
}

// True once `peer` has dialled; it gets its answer.
Result<bool> Door::welcome(Rank peer, std::span<const std::byte> address, Guest& guest) {
  const auto found = waiting_.find(peer);
  if (found == waiting_.end()) return false;
  const auto where = decode_door_address(address);
  if (!where.ok()) return about(peer, where.code(), where.status().failure().cause);
  Waiting caller = std::move(found->second);
  waiting_.erase(found);
  Note note = make_note(NoteKind::welcome);
  greet_back(note, where->token);
  if (!send_note(caller.socket.get(), note)) return about(peer, Code::peer_lost, "it closed the connection");
  guest = make_guest(peer, std::move(caller.socket), std::move(caller.segment), 1, caller.hello);
  return true;
}

// ---- waiting

void Door::await(std::chrono::nanoseconds at_most) const {
  std::vector<pollfd> watched;
  watched.push_back({listener_.get(), POLLIN, 0});
  for (const Caller& caller : callers_) watched.push_back({caller.socket.get(), POLLIN, 0});
  for (const auto& [peer, dialled] : dialled_) watched.push_back({dialled.socket.get(), POLLIN, 0});
  ::poll(watched.data(), watched.size(), Deadline::in(at_most).left_ms());
}

Result<std::vector<Door::Guest>> Door::admit(std::span<const Rank> awaited, std::span<const Bytes> by_rank,
                                             std::chrono::nanoseconds may_block_for) {
  await(may_block_for);
  accept_callers();
  hear_callers();
  std::vector<Guest> guests;
  for (const Rank peer : awaited) {
    Guest guest;
    const auto there = peer > options_.rank ? hear_welcome(peer, guest)
                                            : welcome(peer, by_rank[static_cast<std::size_t>(peer)], guest);
    RONDEL_TRY(there);
    if (*there) guests.push_back(std::move(guest));
  }
  return guests;
}

}  // namespace rondel::shm
