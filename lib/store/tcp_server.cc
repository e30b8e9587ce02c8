// SPDX-License-Identifier: Apache-2.0
#include "lib/store/tcp_server.h"

#include <fmt/format.h>
#include <netinet/in.h>
#include <sys/epoll.h>
#include <sys/eventfd.h>
#include <sys/socket.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <atomic>
#include <cerrno>
#include <deque>
#include <map>
#include <mutex>
#include <thread>
#include <utility>

#include "lib/liveness/service.h"
#include "lib/log.h"
#include "lib/private_fd.h"
#include "lib/service_thread.h"
#include "lib/store/server_connection.h"
#include "lib/store/socket.h"
#include "lib/store/store_service.h"
#include "lib/wire.h"

namespace rondel {
namespace {

using Clock = Deadline::Clock;
using store::ServerConnection;
using ConnectionId = std::uint64_t;
using Connections = std::map<ConnectionId, std::unique_ptr<ServerConnection>>;

constexpr ConnectionId kListener = 0;
constexpr ConnectionId kWake = 1;
constexpr ConnectionId kFirstConnection = 2;
constexpr std::size_t kStrangersAtOnce = 512;  // beyond, the one that has dawdled longest goes
constexpr int kAcceptsPerTurn = 64;            // so that a flood of strangers leaves room for the others
constexpr std::chrono::milliseconds kAcceptPause{100};
constexpr std::chrono::seconds kLogInterval{1};

/// One line a second about strangers, however many there are.
class StrangerLog {
 public:
  void note(const std::string& peer, const Status& why) {
    const auto now = Clock::now();
    if (now < next_) {
      ++silent_;
      return;
    }
    const std::string others =
        silent_ == 0 ? "" : fmt::format(" ({} others since the last such line)", silent_);
    log(LogLevel::warn, "job server: closed a connection from {}: {}{}", peer, why.failure().cause, others);
    silent_ = 0;
    next_ = now + kLogInterval;
  }

 private:
  Clock::time_point next_ = Clock::time_point::min();
  std::uint64_t silent_ = 0;
};

Result<UniqueFd> make_wake() {
  UniqueFd fd(::eventfd(0, EFD_NONBLOCK | EFD_CLOEXEC));
  if (!fd) return system_failure(Code::out_of_resources, "making an eventfd", errno);
  return fd;
}

}  // namespace

struct TcpServer::Body {
  Body(const TcpServerOptions& wanted, const Secret& job_secret) : options(wanted), secret(job_secret) {}

  void serve();
  void handle(const epoll_event& event);
  void accept_all();
  void admit(UniqueFd fd, const sockaddr_storage& from);
  void receive(ConnectionId id);
  Status use(ConnectionId id, ServerConnection::Role role, std::span<const std::byte> frame);
  template <class Outgoing>
  void deliver(const std::vector<Outgoing>& messages);
  void watch_for(ConnectionId id, std::uint32_t events, int operation);
  void drop(ConnectionId id, const Status& why);
  void expire_strangers(Clock::time_point now);
  int milliseconds_to_next(Clock::time_point now);
  void note_attendance();

  const TcpServerOptions options;
  const Secret secret;
  std::uint16_t port = 0;
  Bytes self;  // what the handshake tells clients about this server
  PrivateFd listener;
  UniqueFd epoll, wake;
  std::atomic<bool> stopping{false};  // release in the destructor, acquire in serve()
  std::thread thread;
  std::mutex attendance_mutex;
  std::vector<Rank> arrived;
  std::optional<Rank> first_fallen;

  // The server's thread only.
  Connections connections;
  std::deque<ConnectionId> strangers;  // in order of arrival, some of them known or gone by now
  ConnectionId next_id = kFirstConnection;
  Clock::time_point accept_again = Clock::time_point::min();
  bool accept_paused = false;
  store::StoreService store;
  liveness::Service liveness;
  StrangerLog stranger_log;
};

TcpServer::TcpServer() = default;

Result<std::unique_ptr<TcpServer>> TcpServer::start(const TcpServerOptions& options, const Secret& secret) {
  std::unique_ptr<TcpServer> server(new TcpServer);
  server->body_ = std::make_unique<Body>(options, secret);
  Body& body = *server->body_;
  body.self =
      wire::Writer().number(static_cast<std::uint32_t>(options.holder_rank)).text(options.holder_host).take();
  auto listener = store::listen_on(options.bind_address, options.port);
  if (!listener.ok()) return std::move(listener).status();
  const auto bound = store::local_address(listener->get());
  if (!bound.ok()) return bound.status();
  const bool v4 = bound->ss_family == AF_INET;
  body.port = ntohs(v4 ? reinterpret_cast<const sockaddr_in&>(*bound).sin_port
                       : reinterpret_cast<const sockaddr_in6&>(*bound).sin6_port);
  auto wake = make_wake();
  if (!wake.ok()) return std::move(wake).status();
  body.listener = PrivateFd(std::move(*listener));
  body.wake = std::move(*wake);
  body.epoll = UniqueFd(::epoll_create1(EPOLL_CLOEXEC));
  if (!body.epoll) return system_failure(Code::out_of_resources, "making an epoll instance", errno);
  for (const auto& [fd, id] : {std::pair{body.listener.get(), kListener}, {body.wake.get(), kWake}}) {
    epoll_event event{EPOLLIN, {.u64 = id}};
    if (::epoll_ctl(body.epoll.get(), EPOLL_CTL_ADD, fd, &event) != 0)
      return system_failure(Code::out_of_resources, "watching the server's sockets", errno);
  }
  auto thread = start_service("the job's server", [&body] { body.serve(); });
  RONDEL_TRY(thread);
  body.thread = *std::move(thread);
  return server;
}

TcpServer::~TcpServer() {
  if (body_ == nullptr || !body_->thread.joinable()) return;
  body_->stopping.store(true, std::memory_order_release);
  const std::uint64_t one = 1;
  static_cast<void>(
      !::write(body_->wake.get(), &one, sizeof(one)));  // can not fail: the counter is far from full
  body_->thread.join();
}

std::uint16_t TcpServer::port() const { return body_->port; }

std::string TcpServer::address() const {
  return store::join_address(body_->options.bind_address, body_->port);
}

std::vector<Rank> TcpServer::arrived_ranks() const {
  const std::lock_guard lock(body_->attendance_mutex);
  return body_->arrived;
}

std::optional<Rank> TcpServer::first_fallen_rank() const {
  const std::lock_guard lock(body_->attendance_mutex);
  return body_->first_fallen;
}

void TcpServer::Body::serve() {
  std::array<epoll_event, 64> events;
  while (!stopping.load(std::memory_order_acquire)) {
    const int timeout_ms = milliseconds_to_next(Clock::now());
    const int ready = ::epoll_wait(epoll.get(), events.data(), static_cast<int>(events.size()), timeout_ms);
    for (int i = 0; i < ready; ++i) handle(events[static_cast<std::size_t>(i)]);
    const auto now = Clock::now();
    deliver(liveness.tick(now));
    expire_strangers(now);
    if (accept_paused && now >= accept_again) accept_all();
    note_attendance();
  }
}

void TcpServer::Body::handle(const epoll_event& event) {
  const ConnectionId id = event.data.u64;
  if (id == kWake) return;
  if (id == kListener) return accept_all();
  const auto found = connections.find(id);
  if (found == connections.end()) return;  // dropped earlier in this turn
  if ((event.events & EPOLLOUT) != 0) {
    const Status flushed = found->second->flush();
    if (!flushed.ok()) return drop(id, flushed);
    if (!found->second->has_unsent()) watch_for(id, EPOLLIN, EPOLL_CTL_MOD);
  }
  if ((event.events & ~static_cast<std::uint32_t>(EPOLLOUT)) != 0) receive(id);
}

void TcpServer::Body::accept_all() {
  for (int turn = 0; turn < kAcceptsPerTurn; ++turn) {
    sockaddr_storage from{};
    socklen_t bytes = sizeof(from);
    UniqueFd fd(
        ::accept4(listener.get(), reinterpret_cast<sockaddr*>(&from), &bytes, SOCK_NONBLOCK | SOCK_CLOEXEC));
    const int error = errno;
    const bool pause = !fd && resources_ran_out(error);
    if (pause != accept_paused) watch_for(kListener, pause ? 0U : std::uint32_t{EPOLLIN}, EPOLL_CTL_MOD);
    accept_paused = pause;
    if (pause) {
      // Waiting clients stay in the backlog. To look again at once would only spin.
      accept_again = Clock::now() + kAcceptPause;
      stranger_log.note("the backlog",
                        system_failure(Code::out_of_resources, "can not accept for now", error));
      return;
    }
    if (!fd && error != EINTR && error != ECONNABORTED) return;
    if (fd) admit(std::move(fd), from);
  }
}

void TcpServer::Body::admit(UniqueFd fd, const sockaddr_storage& from) {
  const std::string peer = store::describe(from);
  auto made = ServerConnection::accept(std::move(fd), peer, secret, self,
                                       Deadline::in(options.handshake_timeout), options.silence);
  if (!made.ok()) return stranger_log.note(peer, made.status());
  const ConnectionId id = next_id++;
  connections.emplace(id, std::move(*made));
  watch_for(id, EPOLLIN, EPOLL_CTL_ADD);
  strangers.push_back(id);
}

void TcpServer::Body::watch_for(ConnectionId id, std::uint32_t events, int operation) {
  epoll_event event{events, {.u64 = id}};
  const int fd = id == kListener ? listener.get() : connections.at(id)->fd();
  if (::epoll_ctl(epoll.get(), operation, fd, &event) != 0 && operation == EPOLL_CTL_ADD)
    drop(id, system_failure(Code::out_of_resources, "watching the connection", errno));
}

void TcpServer::Body::receive(ConnectionId id) {
  ServerConnection& connection = *connections.at(id);
  const auto role_before = connection.role();
  const Status received = connection.receive([this, id, &connection](std::span<const std::byte> frame) {
    return use(id, connection.role(), frame);
  });
  if (!received.ok()) return drop(id, received);
  if (role_before == ServerConnection::Role::stranger && connection.role() == role_before &&
      connection.ended())
    return drop(id, Status(Code::refused, "it left before the handshake was done"));
  if (connection.ended())
    drop(id, Status());
  else if (connection.has_unsent())
    watch_for(id, EPOLLIN | EPOLLOUT, EPOLL_CTL_MOD);
}

Status TcpServer::Body::use(ConnectionId id, ServerConnection::Role role, std::span<const std::byte> frame) {
  if (role == ServerConnection::Role::store) {
    const auto replies = store.take(id, frame);
    if (!replies.ok()) return replies.status();
    deliver(*replies);
  } else {
    const auto instructions = liveness.take(id, frame, Clock::now());
    if (!instructions.ok()) return instructions.status();
    deliver(*instructions);
  }
  return {};
}

template <class Outgoing>
void TcpServer::Body::deliver(const std::vector<Outgoing>& messages) {
  for (const Outgoing& message : messages) {
    const auto found = connections.find(message.to);
    if (found == connections.end()) continue;
    // A failure shows again when the connection is next received from, and is dealt with there.
    static_cast<void>(found->second->send(message.body));
    if (found->second->has_unsent()) watch_for(message.to, EPOLLIN | EPOLLOUT, EPOLL_CTL_MOD);
  }
}

void TcpServer::Body::drop(ConnectionId id, const Status& why) {
  const auto found = connections.find(id);
  if (found == connections.end()) return;
  const auto role = found->second->role();
  if (!why.ok() && role == ServerConnection::Role::stranger)
    stranger_log.note(found->second->peer(), why);
  else if (!why.ok())
    log(LogLevel::info, "job server: lost {}: {}", found->second->peer(), why.failure().cause);
  connections.erase(found);
  if (role == ServerConnection::Role::store) store.gone(id);
  if (role == ServerConnection::Role::member) deliver(liveness.gone(id, why.failure().cause));
}

void TcpServer::Body::expire_strangers(Clock::time_point now) {
  while (!strangers.empty()) {
    const ConnectionId oldest = strangers.front();
    const auto found = connections.find(oldest);
    const bool stranger =
        found != connections.end() && found->second->role() == ServerConnection::Role::stranger;
    if (stranger && strangers.size() <= kStrangersAtOnce && found->second->handshake_due().when() > now)
      return;
    strangers.pop_front();
    if (stranger) drop(oldest, Status(Code::timed_out, "it did not finish the handshake in time"));
  }
}

int TcpServer::Body::milliseconds_to_next(Clock::time_point now) {
  auto next = std::min(liveness.next_tick(), now + std::chrono::hours(1));
  if (accept_paused) next = std::min(next, accept_again);
  if (!strangers.empty()) {
    const auto found = connections.find(strangers.front());
    next = std::min(next, found == connections.end() ? now : found->second->handshake_due().when());
  }
  return Deadline::at(next).left_ms();
}

void TcpServer::Body::note_attendance() {
  // Only this thread writes them.
  if (liveness.arrived().size() == arrived.size() && liveness.first_fallen() == first_fallen) return;
  const std::lock_guard lock(attendance_mutex);
  arrived.assign(liveness.arrived().begin(), liveness.arrived().end());
  first_fallen = liveness.first_fallen();
}

}  // namespace rondel
