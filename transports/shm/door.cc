// SPDX-License-Identifier: Apache-2.0
#include "transports/shm/door.h"

#include <fmt/format.h>
#include <poll.h>
#include <sys/socket.h>

#include <algorithm>
#include <bit>
#include <cerrno>
#include <cstring>
#include <utility>

#include "lib/log.h"
#include "lib/wire.h"
#include "transports/shm/pull.h"
#include "transports/shm/unix_socket.h"

namespace rondel::shm {
namespace {

constexpr std::size_t kMostCallers = 64;
constexpr std::size_t kNameLimit = 64;

}  // namespace

Bytes encode(const DoorAddress& address) {
  return wire::Writer()
      .text(address.name)
      .blob(address.token)
      .number(address.probe_address)
      .number(address.probe_value)
      .take();
}

Result<DoorAddress> decode_door_address(std::span<const std::byte> bytes) {
  wire::Reader reader(bytes);
  DoorAddress address;
  address.name = reader.text(kNameLimit);
  const auto token = reader.blob(Secret::kBytes);
  address.token.assign(token.begin(), token.end());
  address.probe_address = reader.number<std::uint64_t>();
  address.probe_value = reader.number<std::uint64_t>();
  if (!reader.finished() || address.name.empty() || address.token.size() != Secret::kBytes)
    return Status(Code::refused, "its address is none of shared memory");
  return address;
}

Result<std::unique_ptr<Door>> Door::open(const Options& options) {
  const auto token = Secret::generate(), value = Secret::generate();
  RONDEL_TRY(token);
  RONDEL_TRY(value);
  auto name = unguessable_name();
  RONDEL_TRY(name);
  std::unique_ptr<Door> door(new Door(options));
  door->address_.token.assign(token->bytes().begin(), token->bytes().end());
  door->address_.name = std::move(name).value();
  std::memcpy(&door->probe_value_, value->bytes().data(), sizeof door->probe_value_);
  if (options.pull) {
    door->address_.probe_address = reinterpret_cast<std::uintptr_t>(&door->probe_value_);
    door->address_.probe_value = door->probe_value_;
  }
  auto listener = listen_at(door->address_.name);
  RONDEL_TRY(listener);
  door->listener_ = std::move(listener).value();
  if (options.pull) allow_pulling();
  return door;
}

// ---- dialling

Result<std::optional<Door::Guest>> Door::dial(Rank peer, std::span<const std::byte> address) {
  const auto where = decode_door_address(address);
  RONDEL_TRY(where);
  auto socket = make_socket();
  RONDEL_TRY(socket);
  const int error = connect_to(*socket, where->name);
  if (error == EAGAIN) return std::optional<Guest>();
  if (error == ECONNREFUSED) return Status(Code::peer_lost, "it has closed its endpoint");
  if (error != 0) return system_failure(Code::unavailable, "connecting to a Unix socket", error);
  RONDEL_TRY(check_user(*socket));
  auto segment = SegmentHold::create();
  RONDEL_TRY(segment);
  Note hello = make_note(NoteKind::hello);
  std::copy(where->token.begin(), where->token.end(), std::begin(hello.token));
  hello.rank = options_.rank;
  hello.probe_address = address_.probe_address;
  hello.probe_value = address_.probe_value;
  if (!send_note(socket->get(), hello, segment->fd()))
    return Status(Code::peer_lost, "it closed the connection");
  return std::optional<Guest>(make_guest(peer, std::move(socket).value(), std::move(segment).value(), 0,
                                         where->probe_address, where->probe_value));
}

Door::Guest Door::make_guest(Rank peer, PrivateFd socket, SegmentHold segment, int side,
                             std::uint64_t probe_address, std::uint64_t probe_value) const {
  const pid_t pid = peer_of(socket).process;
  if (options_.pull && probe_address != 0 && can_pull(pid, probe_address, probe_value))
    segment->side[side].can_pull.store(
        1, std::memory_order_relaxed);  // a peer that sees it late copies meanwhile
  return {peer, Connection{std::move(socket), std::move(segment), side, pid}};
}

// ---- being dialled

Status Door::accept_callers() {
  while (callers_.size() < kMostCallers) {
    PrivateFd socket(UniqueFd(::accept4(listener_.get(), nullptr, nullptr, SOCK_NONBLOCK | SOCK_CLOEXEC)));
    if (!socket && resources_ran_out(errno))
      return system_failure(Code::out_of_resources, "taking in a connection", errno);
    if (!socket) return {};
    if (!check_user(socket).ok()) continue;
    callers_.push_back({std::move(socket), Deadline::in(options_.greeting_limit)});
  }
  return {};
}

// Fails only for want of this process's own resources.
Status Door::hear_callers() {
  Status own;
  std::erase_if(callers_, [this, &own](Caller& caller) {
    auto got = receive_note(caller.socket.get());
    if (got.ok() && !*got) return caller.due.passed();
    const Status seated = got.ok() ? seat(caller, std::move(**got)) : got.status();
    if (seated.code() == Code::out_of_resources) own = seated;
    if (!seated.ok() && seated.code() != Code::peer_lost && std::has_single_bit(++strangers_))
      log(LogLevel::warn, "closed a connection from process {}: {} ({} so far)",
          peer_of(caller.socket).process, seated.text(), strangers_);
    return true;
  });
  return own;
}

Status Door::seat(Caller& caller, ReceivedNote hello) {
  const Note& note = hello.note;
  if (note.kind != NoteKind::hello || !equal_secretly(note.token, address_.token))
    return Status(Code::refused, "it does not know this endpoint's token");
  if (note.rank < 0 || note.rank >= options_.rank)
    return Status(Code::refused, fmt::format("rank {} can not dial this rank", note.rank));
  if (!hello.fd && !hello.lost_fd) return Status(Code::refused, "it brings no memory");
  if (hello.lost_fd)
    return system_failure(Code::out_of_resources, fmt::format("taking over memory from rank {}", note.rank),
                          EMFILE);
  auto segment = SegmentHold::map(hello.fd.get());
  RONDEL_TRY(segment);
  waiting_.insert_or_assign(note.rank, Waiting{std::move(caller.socket), std::move(segment).value(), note});
  return {};
}

// ---- waiting

void Door::await(std::chrono::nanoseconds at_most) const {
  std::vector<pollfd> watched;
  watched.push_back({listener_.get(), POLLIN, 0});
  for (const Caller& caller : callers_) watched.push_back({caller.socket.get(), POLLIN, 0});
  ::poll(watched.data(), watched.size(), Deadline::in(at_most).left_ms());
}

Result<std::vector<Door::Guest>> Door::admit(std::span<const Rank> awaited,
                                             std::chrono::nanoseconds may_block_for) {
  const auto is_here = [this](Rank peer) { return waiting_.contains(peer); };
  if (std::none_of(awaited.begin(), awaited.end(), is_here)) await(may_block_for);
  RONDEL_TRY(accept_callers());
  RONDEL_TRY(hear_callers());
  std::vector<Guest> guests;
  for (const Rank peer : awaited) {
    const auto found = waiting_.find(peer);
    if (found == waiting_.end()) continue;
    Waiting& caller = found->second;
    guests.push_back(make_guest(peer, std::move(caller.socket), std::move(caller.segment), 1,
                                caller.hello.probe_address, caller.hello.probe_value));
    waiting_.erase(found);
  }
  return guests;
}

}  // namespace rondel::shm
