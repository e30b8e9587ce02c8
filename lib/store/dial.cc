// SPDX-License-Identifier: Apache-2.0
#include "lib/store/dial.h"

#include <fmt/format.h>
#include <netdb.h>
#include <poll.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <chrono>
#include <cstring>
#include <memory>
#include <random>
#include <system_error>
#include <thread>
#include <utility>
#include <vector>

#include "lib/host_identity.h"
#include "lib/store/socket.h"
#include "lib/wire.h"

namespace rondel::store {
namespace {

using std::chrono::milliseconds;
constexpr milliseconds kFirstPause{10};
constexpr milliseconds kLongestPause{500};
constexpr milliseconds kFirstPatience{1'000};  // for one address of several; doubles with each round
constexpr milliseconds kHandshakePatience{10'000};

struct Candidate {
  int family = 0;
  sockaddr_storage address{};
  socklen_t bytes = 0;
};

Result<std::vector<Candidate>> resolve(const HostPort& where) {
  addrinfo hints{};
  hints.ai_socktype = SOCK_STREAM;
  hints.ai_flags = AI_NUMERICSERV;
  addrinfo* found = nullptr;
  const int error = ::getaddrinfo(where.host.c_str(), where.port.c_str(), &hints, &found);
  if (error != 0)
    return Status(Code::unavailable, fmt::format("host {} can not resolve the name '{}': {}", host_name(),
                                                 where.host, ::gai_strerror(error)));
  const std::unique_ptr<addrinfo, decltype(&::freeaddrinfo)> owned(found, ::freeaddrinfo);
  std::vector<Candidate> candidates;
  for (const addrinfo* one = found; one != nullptr; one = one->ai_next) {
    Candidate candidate;
    candidate.family = one->ai_family;
    candidate.bytes = one->ai_addrlen;
    std::memcpy(&candidate.address, one->ai_addr, one->ai_addrlen);
    candidates.push_back(candidate);
  }
  return candidates;
}

/// Nobody answered, in the words of `cause`, and the network is to blame.
Status no_way(Code code, std::string cause) {
  return Status(code, std::move(cause),
                "see that the hosts share a network, of one IP version (RONDEL_NET chooses it), and that no "
                "firewall closes its ports (RONDEL_PORTS names them)");
}

Status failed_to_connect(const Candidate& to, int error) {
  const std::string where = describe(to.address);
  switch (error) {
    case ECONNREFUSED:
      return Status(Code::unavailable, "nobody listens on " + where + " (connection refused)");
    case ENETUNREACH:
    case EHOSTUNREACH:
    case ENETDOWN:
    case EACCES:
    case EPERM:
    case EINVAL:  // a black hole among the routes
      return no_way(
          Code::unavailable,
          fmt::format("host {} has no way to {}, an {} address ({})", host_name(), where,
                      to.family == AF_INET6 ? "IPv6" : "IPv4", std::generic_category().message(error)));
    default:
      return system_failure(Code::unavailable, "connecting to " + where, error);
  }
}

/// A connection from a local port to itself: the kernel makes one when nobody listens on a port that it also
/// hands out.
bool connected_to_itself(int fd, const Candidate& to) {
  const auto mine = local_address(fd);
  return mine.ok() && describe(*mine) == describe(to.address);
}

Result<UniqueFd> connect_to(const Candidate& to, milliseconds silence, Deadline deadline) {
  UniqueFd fd(::socket(to.family, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0));
  if (!fd) return system_failure(Code::out_of_resources, "opening a socket", errno);
  set_stream_options(fd.get(), silence);
  if (::connect(fd.get(), reinterpret_cast<const sockaddr*>(&to.address), to.bytes) != 0) {
    if (errno != EINPROGRESS) return failed_to_connect(to, errno);
    const auto ready = await_events(fd.get(), POLLOUT, deadline);
    if (!ready.ok()) return ready.status();
    if (!*ready) return no_way(Code::timed_out, "no answer from " + describe(to.address));
    int error = 0;
    socklen_t bytes = sizeof(error);
    if (::getsockopt(fd.get(), SOL_SOCKET, SO_ERROR, &error, &bytes) != 0) error = errno;
    if (error != 0) return failed_to_connect(to, error);
  }
  if (connected_to_itself(fd.get(), to)) return failed_to_connect(to, ECONNREFUSED);
  return fd;
}

Status shake_hands(int fd, Handshake& handshake, Deadline deadline) {
  RONDEL_TRY(send_all(fd, handshake.opening(), deadline));
  std::array<std::byte, kHandshakeBodyLimit> piece;
  while (!handshake.done()) {
    const auto wanted = std::span(piece).first(std::min(piece.size(), handshake.wants()));
    const auto got = receive_some(fd, wanted, deadline);
    if (!got.ok()) return got.status();
    const auto reply = handshake.feed(wanted.first(*got));
    if (!reply.ok()) {
      static_cast<void>(send_all(fd, handshake.farewell(), deadline));  // a courtesy
      return reply.status();
    }
    RONDEL_TRY(send_all(fd, *reply, deadline));
  }
  return {};
}

class Dialler {
 public:
  Dialler(const Secret& secret, const std::string& role, Deadline deadline, milliseconds silence)
      : secret_(secret), role_(role), deadline_(deadline), silence_(silence) {}

  Result<Dialled> try_all(const std::vector<Candidate>& candidates, milliseconds patience) {
    Status last(Code::unavailable, "the name has no address");
    for (const Candidate& candidate : candidates) {
      auto made = try_one(candidate, patience);
      if (made.ok() || made.code() == Code::refused || deadline_.passed()) return made;
      last = std::move(made).status();
    }
    return last;
  }

 private:
  Result<Dialled> try_one(const Candidate& candidate, milliseconds patience) {
    auto fd = connect_to(candidate, silence_, Deadline::in(patience).or_before(deadline_));
    if (!fd.ok()) return std::move(fd).status();
    auto handshake = Handshake::initiator(secret_, wire::as_bytes(role_));
    if (!handshake.ok()) return std::move(handshake).status();
    Status shaken = shake_hands(fd->get(), *handshake, Deadline::in(kHandshakePatience).or_before(deadline_));
    if (!shaken.ok()) return std::move(shaken).with("the handshake with " + describe(candidate.address));
    return Dialled{std::move(*fd), handshake->peer_payload()};
  }

  const Secret& secret_;
  const std::string& role_;
  const Deadline deadline_;
  const milliseconds silence_;
};

}  // namespace

std::string Holder::text() const {
  return rank == kNoRank ? "the launcher" : fmt::format("rank {} (host {})", rank, host);
}

Holder holder_of(std::span<const std::byte> peer_payload) {
  wire::Reader reader(peer_payload);
  Holder holder;
  holder.rank = static_cast<Rank>(reader.number<std::uint32_t>());
  holder.host = reader.text(256);
  return reader.finished() ? holder : Holder();
}

Result<Dialled> dial_once(const std::string& address, const Secret& secret, const std::string& role,
                          Deadline deadline) {
  const auto where = parse_address(address);
  if (!where.ok()) return where.status();
  const auto candidates = resolve(*where);
  if (!candidates.ok()) return candidates.status();
  return Dialler(secret, role, deadline, kUsualSilence)
      .try_all(*candidates, std::chrono::ceil<milliseconds>(deadline.left()));
}

Result<Dialled> dial(const std::string& address, const Secret& secret, const std::string& role,
                     Deadline deadline, milliseconds silence) {
  const auto since = Deadline::Clock::now();
  const auto where = parse_address(address);
  if (!where.ok()) return where.status();
  Dialler dialler(secret, role, deadline, silence);
  // Ranks that failed together should not come back together.
  std::minstd_rand jitter(static_cast<unsigned>(::getpid()) ^
                          static_cast<unsigned>(since.time_since_epoch().count()));
  milliseconds pause = kFirstPause;
  milliseconds patience = kFirstPatience;
  for (;;) {
    const auto candidates = resolve(*where);
    auto made =
        candidates.ok() ? dialler.try_all(*candidates, patience) : Result<Dialled>(candidates.status());
    if (made.ok() || made.code() == Code::refused) return made;
    if (deadline.passed()) {
      const std::chrono::duration<double> waited = Deadline::Clock::now() - since;
      const Failure last = made.status().failure();
      return Status(Code::timed_out,
                    fmt::format("no connection to the job server at {} in {:.1f} s; last try: {}", address,
                                waited.count(), last.cause),
                    last.hint);
    }
    const milliseconds chosen = pause / 2 + milliseconds(jitter() % static_cast<unsigned>(pause.count()));
    std::this_thread::sleep_for(std::min<std::chrono::nanoseconds>(chosen, deadline.left()));
    pause = std::min(pause * 2, kLongestPause);
    patience *= 2;
  }
}

}  // namespace rondel::store
