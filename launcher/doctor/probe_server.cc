// SPDX-License-Identifier: Apache-2.0
#include "launcher/doctor/probe_server.h"

#include <fcntl.h>
#include <netinet/in.h>
#include <sys/epoll.h>
#include <sys/socket.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <string>
#include <string_view>
#include <utility>

#include "launcher/doctor/probe_wire.h"
#include "lib/deadline.h"
#include "lib/store/socket.h"

namespace rondel::doctor {
namespace {

using Clock = Deadline::Clock;

constexpr std::size_t kMostGuests = 512;
constexpr std::chrono::milliseconds kGreetingTime{5'000};  // of a stranger on a socket
constexpr int kReads = 8;                                  // at a time, so that others have their turn

/// Whether a listener could have the port; quicker than to listen, and to ask who has it.
bool is_free(std::uint16_t port) {
  const int yes = 1;
  const auto binds = [&yes](int family, const auto& address) {
    const UniqueFd fd(::socket(family, SOCK_STREAM | SOCK_CLOEXEC, 0));
    return fd && ::setsockopt(fd.get(), SOL_SOCKET, SO_REUSEADDR, &yes, sizeof yes) == 0 &&
           ::bind(fd.get(), reinterpret_cast<const sockaddr*>(&address), sizeof address) == 0;
  };
  sockaddr_in6 v6{};
  v6.sin6_family = AF_INET6;
  v6.sin6_port = htons(port);
  sockaddr_in v4{};
  v4.sin_family = AF_INET;
  v4.sin_port = htons(port);
  // There are kernels without IPv6, and such where it is switched off.
  return binds(AF_INET6, v6) || (errno != EADDRINUSE && binds(AF_INET, v4));
}

}  // namespace

struct ProbeServer::Guest {
  enum class Stage { greeting, echo, sink };

  UniqueFd fd;
  Handshake handshake;
  Clock::time_point due = Clock::now() + kGreetingTime;
  Stage stage = Stage::greeting;
  std::uint64_t bytes = 0;
  Clock::time_point first{};
};

ProbeServer::ProbeServer(EventLoop& loop, const Secret& secret, std::uint32_t host)
    : loop_(loop), secret_(secret), host_(host) {}

ProbeServer::~ProbeServer() {
  for (const UniqueFd& listener : listeners_) loop_.forget(listener.get());
  for (const auto& [fd, guest] : guests_) loop_.forget(fd);
}

Status ProbeServer::add_listener(std::uint16_t port, PortFacts& facts) {
  auto listener = store::listen_on(store::any_address(), port);
  if (!listener.ok()) return std::move(listener).status();
  const auto address = store::local_address(listener->get());
  if (!address.ok()) return address.status();
  const std::string text = store::describe(*address);
  facts.listening.push_back(static_cast<std::uint16_t>(std::stoi(text.substr(text.rfind(':') + 1))));
  const int fd = listener->get();
  RONDEL_TRY(loop_.watch(fd, EPOLLIN, [this, fd] { accept(fd); }));
  listeners_.push_back(*std::move(listener));
  return {};
}

PortFacts ProbeServer::listen(PortRange range) {
  PortFacts facts;
  if (range.first == 0) {
    facts.failure = add_listener(0, facts).failure().cause;
    return facts;
  }
  std::vector<std::uint16_t> free;
  for (std::uint32_t port = range.first; port <= range.last; ++port)
    if (is_free(static_cast<std::uint16_t>(port))) free.push_back(static_cast<std::uint16_t>(port));
  facts.free_in_range = static_cast<std::int64_t>(free.size());
  if (free.empty()) facts.failure = "no port of RONDEL_PORTS is free";
  if (!free.empty()) facts.failure = add_listener(free.front(), facts).failure().cause;
  if (free.size() > 1 && facts.failure.empty())
    facts.failure = add_listener(free.back(), facts).failure().cause;
  return facts;
}

void ProbeServer::drop(int guest) {
  loop_.forget(guest);
  guests_.erase(guest);
}

/// Who has not shown the secret in time; and of many who have not, the one that has had most of it.
void ProbeServer::drop_late() {
  const auto now = Clock::now();
  std::vector<std::pair<Clock::time_point, int>> greeting;
  for (const auto& [fd, guest] : guests_)
    if (guest->stage == Guest::Stage::greeting) greeting.emplace_back(guest->due, fd);
  std::sort(greeting.begin(), greeting.end());
  for (const auto& [due, fd] : greeting)
    if (now >= due || guests_.size() >= kMostGuests) drop(fd);
}

void ProbeServer::accept(int listener) {
  drop_late();
  UniqueFd fd(::accept4(listener, nullptr, nullptr, SOCK_NONBLOCK | SOCK_CLOEXEC));
  if (!fd) return;
  auto handshake = Handshake::responder(secret_, host_payload(host_), nullptr);
  if (!handshake.ok() || guests_.size() >= kMostGuests) return;
  store::set_stream_options(fd.get(), store::kUsualSilence);
  const int number = fd.get();
  const Status watched = loop_.watch(number, EPOLLIN, [this, number] { serve(number); });
  if (!watched.ok()) return;
  guests_[number] = std::make_unique<Guest>(Guest{.fd = std::move(fd), .handshake = *std::move(handshake)});
}

void ProbeServer::serve(int fd) {
  const auto found = guests_.find(fd);
  if (found == guests_.end()) return;
  Guest& guest = *found->second;
  const bool goes_on = guest.stage == Guest::Stage::greeting ? greet(guest)
                       : guest.stage == Guest::Stage::echo   ? echo(guest)
                                                             : count(guest);
  if (!goes_on) drop(fd);
}

bool ProbeServer::greet(Guest& guest) {
  std::array<std::byte, kHandshakeBodyLimit> piece;
  const std::size_t wanted = std::min(piece.size(), guest.handshake.wants());
  const ssize_t got = ::recv(guest.fd.get(), piece.data(), wanted, 0);
  if (got < 0 && (errno == EAGAIN || errno == EINTR)) return true;
  if (got <= 0) return false;
  const auto reply = guest.handshake.feed(std::span(piece).first(static_cast<std::size_t>(got)));
  // A few hundred bytes on a connection that nothing was sent over yet: they fit.
  const Bytes& answer = reply.ok() ? *reply : guest.handshake.farewell();
  const Status sent = store::send_all(guest.fd.get(), answer, Deadline::in({}));
  if (!reply.ok() || !sent.ok()) return false;
  if (!guest.handshake.done()) return true;
  const Bytes& payload = guest.handshake.peer_payload();
  const std::string_view role(reinterpret_cast<const char*>(payload.data()), payload.size());
  guest.stage = role == kSinkRole ? Guest::Stage::sink : Guest::Stage::echo;
  return role == kSinkRole || role == kEchoRole;
}

bool ProbeServer::echo(Guest& guest) const {
  std::array<std::byte, 4096> piece;
  const ssize_t got = ::recv(guest.fd.get(), piece.data(), piece.size(), 0);
  if (got < 0 && (errno == EAGAIN || errno == EINTR)) return true;
  if (got <= 0) return false;
  const auto bytes = static_cast<std::size_t>(got);
  return store::send_all(guest.fd.get(), std::span(piece).first(bytes), Deadline::in({})).ok();
}

bool ProbeServer::count(Guest& guest) const {
  static thread_local std::array<std::byte, 256 * 1024> piece;
  for (int i = 0; i < kReads; ++i) {
    const ssize_t got = ::recv(guest.fd.get(), piece.data(), piece.size(), 0);
    if (got < 0) return errno == EAGAIN || errno == EINTR;
    if (got == 0) break;
    if (guest.bytes == 0) guest.first = Clock::now();
    guest.bytes += static_cast<std::uint64_t>(got);
    if (i + 1 == kReads) return true;
  }
  const auto took = guest.bytes == 0 ? std::chrono::nanoseconds(0) : Clock::now() - guest.first;
  const Bytes reply =
      wire::Writer().number(guest.bytes).number(static_cast<std::uint64_t>(took.count())).take();
  static_cast<void>(store::send_all(guest.fd.get(), reply, Deadline::in({})));
  return false;
}

}  // namespace rondel::doctor
