// SPDX-License-Identifier: Apache-2.0
#include "transports/verbs/meeting.h"

#include <arpa/inet.h>
#include <fmt/format.h>
#include <netinet/in.h>
#include <sys/socket.h>

#include <algorithm>
#include <bit>
#include <cerrno>
#include <cstring>
#include <system_error>
#include <utility>

#include "lib/host_identity.h"
#include "lib/log.h"
#include "lib/port_range.h"
#include "lib/store/socket.h"

namespace rondel::verbs {
namespace {

constexpr std::size_t kMaxGreetings = 512;  // strangers at one time; beyond it the oldest goes
constexpr int kMostAcceptedInATurn = 64;    // then the links have their turn
constexpr std::chrono::milliseconds kDialPause{25};
constexpr std::chrono::milliseconds kDialLimit{1'000};  // where nobody answers, another address may

std::pair<sockaddr_storage, socklen_t> to_system(const SocketAddress& address) {
  sockaddr_storage storage{};
  if (address.ip.is_v6()) {
    auto& v6 = reinterpret_cast<sockaddr_in6&>(storage);
    v6.sin6_family = AF_INET6;
    v6.sin6_port = htons(address.port);
    std::memcpy(&v6.sin6_addr, address.ip.bytes.data(), 16);
    return {storage, sizeof v6};
  }
  auto& v4 = reinterpret_cast<sockaddr_in&>(storage);
  v4.sin_family = AF_INET;
  v4.sin_port = htons(address.port);
  std::memcpy(&v4.sin_addr, address.ip.bytes.data(), 4);
  return {storage, sizeof v4};
}

std::uint16_t port_of(const sockaddr_storage& storage) {
  return ntohs(storage.ss_family == AF_INET6 ? reinterpret_cast<const sockaddr_in6&>(storage).sin6_port
                                             : reinterpret_cast<const sockaddr_in&>(storage).sin_port);
}

}  // namespace

Result<Meeting> Meeting::open(MeetingPlace place, const LinkHello& mine, const Secret& secret) {
  auto host = this_host();
  RONDEL_TRY(host);
  Meeting meeting(std::move(place), mine, secret);
  meeting.reach_.kernel = host->kernel;
  meeting.reach_.host = host->name;
  for (const IpAddress& ip : meeting.place_.addresses) RONDEL_TRY(meeting.listen_on(ip));
  return meeting;
}

Status Meeting::listen_on(const IpAddress& ip) {
  const auto range = parse_port_range(place_.ports);
  RONDEL_TRY(range);
  Status last;
  for (std::uint32_t port = range->first; port <= range->last; ++port) {
    auto listener = store::listen_on(ip.text(), static_cast<std::uint16_t>(port));
    last = listener.status();
    if (!listener.ok()) continue;
    const auto bound = store::local_address(listener->get());
    RONDEL_TRY(bound);
    reach_.sockets.push_back({ip, port_of(*bound)});
    listeners_.emplace_back(*std::move(listener));
    return {};
  }
  return last;
}

void Meeting::dial(Rank peer, const Reach& reach) {
  if (std::any_of(dials_.begin(), dials_.end(), [peer](const Dial& dial) { return dial.peer == peer; }))
    return;
  reasons_[static_cast<std::size_t>(peer)].clear();
  dials_.push_back({peer, candidates(reach, reach_.kernel, place_.interfaces), 0, 0, {}});
  if (dials_.back().candidates.empty())
    reasons_[static_cast<std::size_t>(peer)] = "it advertises no address that this host could reach";
}

void Meeting::turn(LinkTable& links, std::chrono::milliseconds at_most) {
  accept_all();
  dial_due();
  advance_all(links);
  std::erase_if(dials_, [this, &links](const Dial& dial) {
    return links.connected(dial.peer) != nullptr || !verdict(dial.peer).ok();
  });
  if (at_most > std::chrono::milliseconds::zero()) wait(at_most);
}

void Meeting::accept_all() {
  accept_error_ = 0;
  for (const PrivateFd& listener : listeners_) {
    for (int taken = 0; taken < kMostAcceptedInATurn; ++taken) {
      UniqueFd socket(::accept4(listener.get(), nullptr, nullptr, SOCK_NONBLOCK | SOCK_CLOEXEC));
      if (!socket) {
        if (resources_ran_out(errno)) accept_error_ = errno;  // the next turn may have a descriptor
        break;
      }
      store::set_stream_options(socket.get(), place_.silence);
      auto greeting =
          Greeting::answer(std::move(socket), secret_, mine_, Deadline::in(place_.handshake_limit));
      if (!greeting.ok()) continue;
      if (greetings_.size() >= kMaxGreetings) {
        const auto oldest = std::find_if(greetings_.begin(), greetings_.end(),
                                         [](const Greeting& g) { return !g.dialled() && !g.mark(); });
        if (oldest != greetings_.end()) greetings_.erase(oldest);
      }
      greetings_.push_back(*std::move(greeting));
    }
  }
}

bool Meeting::is_greeting(Rank peer) const {
  return std::any_of(greetings_.begin(), greetings_.end(),
                     [peer](const Greeting& g) { return g.dialled() && g.peer() == peer; });
}

void Meeting::dial_due() {
  const auto now = Deadline::Clock::now();
  for (Dial& dial : dials_)
    if (now >= dial.not_before && !dial.candidates.empty() && !is_greeting(dial.peer)) dial_next(dial);
}

void Meeting::dial_next(Dial& dial) {
  if (dial.next == 0) dial.refusals = 0;
  const SocketAddress& address = dial.candidates[dial.next];
  dial.next = (dial.next + 1) % dial.candidates.size();
  dial.not_before = Deadline::Clock::now() + kDialPause;
  std::string& reason = reasons_[static_cast<std::size_t>(dial.peer)];
  UniqueFd socket(
      ::socket(address.ip.is_v6() ? AF_INET6 : AF_INET, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0));
  if (!socket) {
    Status& verdict = verdicts_[static_cast<std::size_t>(dial.peer)];
    verdict = system_failure(Code::out_of_resources, "opening a socket", errno);
    reason = verdict.text();
    return;
  }
  store::set_stream_options(socket.get(), place_.silence);
  const auto [storage, bytes] = to_system(address);
  if (::connect(socket.get(), reinterpret_cast<const sockaddr*>(&storage), bytes) != 0 &&
      errno != EINPROGRESS) {
    reason = fmt::format("connecting to {}: {}", address.text(), std::system_category().message(errno));
    return;
  }
  auto greeting = Greeting::dial(std::move(socket), secret_, mine_, dial.peer,
                                 Deadline::in(place_.handshake_limit), Deadline::in(kDialLimit));
  if (greeting.ok())
    greetings_.push_back(*std::move(greeting));
  else
    reason = greeting.status().text();
}

void Meeting::advance_all(LinkTable& links) {
  std::erase_if(greetings_, [this, &links](Greeting& greeting) {
    const Status status = greeting.advance(links);
    if (!status.ok()) judge_failure(greeting, status);
    if (!status.ok()) tell_failure(greeting, status);
    return !status.ok() || greeting.finished();
  });
}

// Another address may lead to the right process, a later try may find it started; but not where all refuse,
// or who has proved to be the peer does not fit, or this host lacks what a link needs.
void Meeting::judge_failure(const Greeting& greeting, const Status& why) {
  if (greeting.peer() == kNoRank) return;
  const auto peer = static_cast<std::size_t>(greeting.peer());
  const bool own = why.code() == Code::out_of_resources || why.code() == Code::unsupported;
  bool all_refuse = why.code() == Code::refused;
  if (all_refuse && greeting.dialled() && !greeting.mark()) {
    const auto dial = std::find_if(dials_.begin(), dials_.end(),
                                   [&greeting](const Dial& d) { return d.peer == greeting.peer(); });
    all_refuse = dial != dials_.end() && ++dial->refusals == dial->candidates.size();
  }
  if (own || all_refuse) verdicts_[peer] = why;
}

// One line for a stranger, and not one for each of thousands.
void Meeting::tell_failure(const Greeting& greeting, const Status& why) {
  if (greeting.peer() != kNoRank) {
    reasons_[static_cast<std::size_t>(greeting.peer())] = why.text();
    return;
  }
  ++strangers_;
  log(std::has_single_bit(strangers_) ? LogLevel::warn : LogLevel::debug,
      "verbs: closed a connection: {} ({} so far)", why.text(), strangers_);
}

void Meeting::wait(std::chrono::milliseconds at_most) const {
  std::vector<pollfd> waited;
  // One that has callers and no descriptor for them would not let us wait.
  for (const PrivateFd& listener : listeners_)
    if (accept_error_ == 0) waited.push_back({listener.get(), POLLIN, 0});
  for (const Greeting& greeting : greetings_) waited.push_back({greeting.socket(), greeting.events(), 0});
  ::poll(waited.data(), waited.size(), static_cast<int>(at_most.count()));
}

void Meeting::close() {
  dials_.clear();
  greetings_.clear();
  listeners_.clear();
}

}  // namespace rondel::verbs
