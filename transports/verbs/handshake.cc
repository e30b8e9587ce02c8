// SPDX-License-Identifier: Apache-2.0
#include "transports/verbs/handshake.h"

#include <fmt/format.h>
#include <poll.h>
#include <sys/socket.h>

#include <cerrno>
#include <cstring>
#include <utility>

#include "lib/wire.h"

namespace rondel::verbs {
namespace {

constexpr std::byte kReadyMark{'R'};

// A dial to a free port of this host may meet itself.
bool meets_itself(int socket) {
  sockaddr_storage mine{};
  sockaddr_storage theirs{};
  socklen_t my_bytes = sizeof mine;
  socklen_t their_bytes = sizeof theirs;
  return ::getsockname(socket, reinterpret_cast<sockaddr*>(&mine), &my_bytes) == 0 &&
         ::getpeername(socket, reinterpret_cast<sockaddr*>(&theirs), &their_bytes) == 0 &&
         my_bytes == their_bytes && std::memcmp(&mine, &theirs, my_bytes) == 0;
}

bool would_block(int error) { return error == EAGAIN || error == EWOULDBLOCK || error == EINTR; }

}  // namespace

Bytes encode(const LinkHello& hello) {
  return wire::Writer()
      .text("verbs")
      .number(hello.context)
      .number(hello.channel)
      .number(static_cast<std::uint32_t>(hello.to))
      .number(static_cast<std::uint32_t>(hello.from))
      .number(static_cast<std::uint32_t>(hello.size))
      .take();
}

Result<LinkHello> decode_link_hello(std::span<const std::byte> bytes) {
  constexpr std::size_t kMaxName = 16;
  wire::Reader reader(bytes);
  const bool ours = reader.text(kMaxName) == "verbs";
  LinkHello hello;
  hello.context = reader.number<std::uint64_t>();
  hello.channel = reader.number<std::uint16_t>();
  hello.to = static_cast<Rank>(reader.number<std::uint32_t>());
  hello.from = static_cast<Rank>(reader.number<std::uint32_t>());
  hello.size = static_cast<Rank>(reader.number<std::uint32_t>());
  if (!ours || !reader.finished()) return Status(Code::refused, "the greeting of a rank can not be read");
  return hello;
}

Status judge(const LinkHello& hello, const LinkHello& mine) {
  if (hello.context != mine.context || hello.channel != mine.channel || hello.to != mine.to)
    return Status(Code::refused, fmt::format("rank {} of this communicator is not here (it left, or this is "
                                             "another host with the same address)",
                                             hello.to));
  if (hello.size != mine.size || hello.from < 0 || hello.from >= mine.size || hello.from == mine.to)
    return Status(Code::refused, fmt::format("rank {} of {} is no member of a communicator of {} ranks",
                                             hello.from, hello.size, mine.size));
  return {};
}

Greeting::Greeting(UniqueFd socket, Handshake handshake, bool dialled, Deadline deadline)
    : socket_(std::move(socket)),
      handshake_(std::move(handshake)),
      dialled_(dialled),
      deadline_(deadline),
      answered_by_(deadline),
      stage_(dialled ? Stage::connecting : Stage::proving) {
  wanted_bytes_ = handshake_.wants();
}

Result<Greeting> Greeting::dial(UniqueFd socket, const Secret& secret, const LinkHello& mine, Rank peer,
                                Deadline deadline, Deadline answered_by) {
  const LinkHello hello{
      .context = mine.context, .channel = mine.channel, .to = peer, .from = mine.to, .size = mine.size};
  auto handshake = Handshake::initiator(secret, encode(hello));
  RONDEL_TRY(handshake);
  Greeting greeting(std::move(socket), *std::move(handshake), true, deadline);
  greeting.peer_ = peer;
  greeting.answered_by_ = answered_by;
  greeting.outgoing_ = greeting.handshake_.opening();
  return greeting;
}

Result<Greeting> Greeting::answer(UniqueFd socket, const Secret& secret, const LinkHello& mine,
                                  Deadline deadline) {
  const auto heard = std::make_shared<LinkHello>();
  auto handshake =
      Handshake::responder(secret, {}, [heard, mine](std::span<const std::byte> payload) -> Status {
        const auto hello = decode_link_hello(payload);
        RONDEL_TRY(hello);
        *heard = *hello;
        return judge(*hello, mine);
      });
  RONDEL_TRY(handshake);
  Greeting greeting(std::move(socket), *std::move(handshake), false, deadline);
  greeting.heard_ = heard;
  return greeting;
}

short Greeting::events() const {
  return static_cast<short>(stage_ == Stage::connecting || !outgoing_.empty() ? POLLOUT : POLLIN);
}

Status Greeting::advance(LinkTable& links) {
  bool moved = true;
  Status status;
  while (status.ok() && moved && !finished()) {
    moved = false;
    status = step(links, moved);
  }
  const bool late = deadline_.passed() || (stage_ == Stage::connecting && answered_by_.passed());
  if (status.ok() && !finished() && late) status = Status(Code::timed_out, "it did not answer in time");
  if (!status.ok() && mark_) links.give_up(*mark_);
  return status;
}

Status Greeting::step(LinkTable& links, bool& moved) {
  if (stage_ == Stage::connecting) {
    pollfd writable{socket_.get(), POLLOUT, 0};
    if (::poll(&writable, 1, 0) != 1) return {};
    int error = 0;
    socklen_t length = sizeof error;
    ::getsockopt(socket_.get(), SOL_SOCKET, SO_ERROR, &error, &length);
    if (error != 0) return system_failure(Code::unavailable, "connecting", error);
    if (meets_itself(socket_.get())) return Status(Code::unavailable, "nobody listens there");
    stage_ = Stage::proving;
  }
  RONDEL_TRY(send_some(moved));
  if (!outgoing_.empty()) return {};
  // The answer to the last message of the handshake may be all that was left to send.
  if (stage_ == Stage::proving && handshake_.done()) {
    moved = true;
    return show(links);
  }
  RONDEL_TRY(receive_some(moved));
  if (incoming_.size() < wanted_bytes_) return {};
  if (stage_ == Stage::proving) return prove();
  if (stage_ == Stage::showing) return take_offer(links);
  Link* const link = links.find(*mark_);
  if (link == nullptr || incoming_[0] != kReadyMark)
    return Status(Code::refused, "the end of its greeting can not be read");
  link->connected(std::move(socket_));
  stage_ = Stage::finished;
  return {};
}

Status Greeting::prove() {
  auto reply = handshake_.feed(incoming_);
  incoming_.clear();
  if (!reply.ok()) {
    const Bytes& farewell = handshake_.farewell();  // says why; the socket's buffer takes it or it is lost
    if (!farewell.empty())
      static_cast<void>(::send(socket_.get(), farewell.data(), farewell.size(), MSG_DONTWAIT | MSG_NOSIGNAL));
    return std::move(reply).status();
  }
  outgoing_ = *std::move(reply);
  if (!handshake_.done()) wanted_bytes_ = handshake_.wants();
  return {};
}

Status Greeting::show(LinkTable& links) {
  if (!dialled_) peer_ = heard_->from;
  auto link = links.begin(peer_);
  RONDEL_TRY(link);
  mark_ = (*link)->mark();
  outgoing_ = encode((*link)->offer());
  stage_ = Stage::showing;
  wanted_bytes_ = kOfferBytes;
  return {};
}

Status Greeting::take_offer(LinkTable& links) {
  const auto offer = decode_offer(incoming_);
  RONDEL_TRY(offer);
  Link* const link = links.find(*mark_);
  if (link == nullptr) return Status(Code::unavailable, "a newer connection took its place");
  RONDEL_TRY(links.bring_up(*link, *offer));
  incoming_.clear();
  outgoing_ = {kReadyMark};
  stage_ = Stage::waiting;
  wanted_bytes_ = 1;
  return {};
}

Status Greeting::send_some(bool& moved) {
  if (outgoing_.empty()) return {};
  const ssize_t sent = ::send(socket_.get(), outgoing_.data(), outgoing_.size(), MSG_DONTWAIT | MSG_NOSIGNAL);
  if (sent < 0 && would_block(errno)) return {};
  if (sent < 0) return system_failure(Code::peer_lost, "greeting", errno);
  moved = true;
  outgoing_.erase(outgoing_.begin(), outgoing_.begin() + sent);
  return {};
}

// Never a byte more than is due: what follows belongs to the next stage.
Status Greeting::receive_some(bool& moved) {
  const std::size_t before = incoming_.size();
  incoming_.resize(wanted_bytes_);
  const ssize_t got = ::recv(socket_.get(), incoming_.data() + before, wanted_bytes_ - before, MSG_DONTWAIT);
  const int error = errno;
  incoming_.resize(before + static_cast<std::size_t>(got > 0 ? got : 0));
  if (got > 0) moved = true;
  if (got == 0) return Status(Code::peer_lost, "it closed the connection during the greeting");
  if (got < 0 && !would_block(error)) return system_failure(Code::peer_lost, "greeting", error);
  return {};
}

}  // namespace rondel::verbs
