// SPDX-License-Identifier: Apache-2.0
#include "lib/liveness/member.h"

#include <fmt/format.h>
#include <poll.h>
#include <sys/eventfd.h>
#include <sys/socket.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <mutex>
#include <thread>
#include <utility>
#include <vector>

#include "lib/frame.h"
#include "lib/liveness/messages.h"
#include "lib/private_fd.h"
#include "lib/service_thread.h"
#include "lib/store/dial.h"
#include "lib/store/socket.h"
#include "lib/wire.h"

namespace rondel::liveness {
namespace {

constexpr std::chrono::seconds kBeatInterval{1};
/// What was sent arrives also without this wait, unless the connection is closed over unread messages.
constexpr std::chrono::milliseconds kFarewellPatience{250};

void raise_once(Watch& watch, Incident incident) {
  incident.context = watch.context();
  if (!watch.raised()) watch.raise(std::move(incident));
}

}  // namespace

struct Member::Body {
  Body(std::string server_address, store::Dialled dialled)
      : address(std::move(server_address)),
        socket(std::move(dialled.fd)),
        holder(store::holder_of(dialled.peer_payload)) {}

  void run();
  void say(const ToServer& message);
  void beat_locked();
  void wake_thread();
  bool turn();
  Status receive();
  Status take(std::span<const std::byte> frame);
  Status flush();
  void lose(const Status& why);
  void part();
  Incident loss_for(const Watch& watch) const;

  const std::string address;
  const PrivateFd socket;
  const store::Holder holder;
  UniqueFd wake;
  std::thread thread;

  std::mutex mutex;  // guards what follows
  std::vector<std::shared_ptr<Watch>> watches;
  Bytes unsent;
  bool stopping = false;
  bool lost = false;
  std::string why_lost;
  std::optional<Context> first_context;

  std::atomic<Deadline::Clock::rep> heard{0};  // when the server said something last

  // The thread only.
  FrameReader reader{kMessageLimit};
  Deadline next_beat = Deadline::in(kBeatInterval);
};

Member::Member() = default;

Result<std::unique_ptr<Member>> Member::connect(const std::string& address, const Secret& secret,
                                                Deadline deadline, std::chrono::milliseconds silence) {
  auto dialled = store::dial(address, secret, store::kMemberRole, deadline, silence);
  if (!dialled.ok()) return std::move(dialled).status();
  std::unique_ptr<Member> member(new Member);
  member->body_ = std::make_unique<Body>(address, std::move(*dialled));
  Body& body = *member->body_;
  body.wake = UniqueFd(::eventfd(0, EFD_NONBLOCK | EFD_CLOEXEC));
  if (!body.wake) return system_failure(Code::out_of_resources, "making an eventfd", errno);
  auto thread = start_service("watching the other ranks", [&body] { body.run(); });
  RONDEL_TRY(thread);
  body.thread = *std::move(thread);
  return member;
}

Member::~Member() {
  if (body_ == nullptr || !body_->thread.joinable()) return;
  {
    const std::lock_guard lock(body_->mutex);
    body_->stopping = true;
  }
  body_->wake_thread();
  body_->thread.join();
}

std::shared_ptr<Watch> Member::join(Context context, Rank rank, Rank size, const std::string& host) {
  auto watch = std::make_shared<Watch>(context);
  {
    const std::lock_guard lock(body_->mutex);
    if (!body_->first_context) body_->first_context = context;
    body_->watches.push_back(watch);
    if (body_->lost) raise_once(*watch, body_->loss_for(*watch));
  }
  body_->say(Join{context, rank, size, host});
  return watch;
}

void Member::leave(const std::shared_ptr<Watch>& watch) {
  {
    const std::lock_guard lock(body_->mutex);
    body_->beat_locked();  // the last word on how far this rank came
    std::erase(body_->watches, watch);
  }
  body_->say(Leave{watch->context()});
}

void Member::report(Incident incident) { body_->say(std::move(incident)); }

void Member::suspect(Context context, Rank peer, std::string evidence) {
  body_->say(Suspect{context, peer, std::move(evidence)});
}

void Member::overdue(Context context, Rank peer, std::uint64_t sequence, std::string operation) {
  body_->say(Overdue{context, peer, sequence, std::move(operation)});
}

bool Member::heard_since(Deadline::Clock::time_point when) const {
  // Relaxed: nothing else is read because of it.
  return body_->heard.load(std::memory_order_relaxed) >= when.time_since_epoch().count();
}

bool Member::await(const Watch& watch, Deadline deadline) {
  constexpr std::chrono::microseconds kLongestPause{2'000};
  std::chrono::microseconds pause{50};
  while (!watch.raised() && !deadline.passed()) {
    std::this_thread::sleep_for(std::min<std::chrono::nanoseconds>(pause, deadline.left()));
    pause = std::min(pause * 2, kLongestPause);
  }
  return watch.raised();
}

void Member::Body::say(const ToServer& message) {
  const Bytes frame = framed(encode(message));
  {
    const std::lock_guard lock(mutex);
    if (lost) return;
    unsent.insert(unsent.end(), frame.begin(), frame.end());
  }
  wake_thread();
}

void Member::Body::beat_locked() {
  Beat beat;
  for (const auto& watch : watches) beat.progress.push_back({watch->context(), watch->entered()});
  const Bytes frame = framed(encode(ToServer(std::move(beat))));
  if (!lost) unsent.insert(unsent.end(), frame.begin(), frame.end());
}

void Member::Body::wake_thread() {
  const std::uint64_t one = 1;
  static_cast<void>(!::write(wake.get(), &one, sizeof(one)));  // a full counter wakes as well
}

void Member::Body::run() {
  while (turn()) continue;
}

/// One wait and what came of it; false when this thread is done.
bool Member::Body::turn() {
  bool sending = false;
  bool gone = false;
  {
    const std::lock_guard lock(mutex);
    if (stopping) gone = true;
    sending = !unsent.empty();
  }
  if (gone) {
    part();
    return false;
  }
  // When the server is lost only the wish to stop can still come.
  const bool silent = lost;
  std::array<pollfd, 2> entries{
      pollfd{wake.get(), POLLIN, 0},
      pollfd{silent ? -1 : socket.get(), static_cast<short>(POLLIN | (sending ? POLLOUT : 0)), 0}};
  const int timeout_ms = silent ? Deadline::in(std::chrono::hours(1)).left_ms() : next_beat.left_ms();
  if (::poll(entries.data(), entries.size(), timeout_ms) < 0 && errno != EINTR) return true;
  std::uint64_t count = 0;
  if (entries[0].revents != 0) static_cast<void>(!::read(wake.get(), &count, sizeof(count)));
  if (silent) return true;

  Status good;
  if (entries[1].revents & ~POLLOUT) good = receive();
  if (good.ok() && next_beat.passed()) {
    next_beat = Deadline::in(kBeatInterval);
    const std::lock_guard lock(mutex);
    if (!watches.empty()) beat_locked();
  }
  if (good.ok()) good = flush();
  if (!good.ok()) lose(good);
  return true;
}

Status Member::Body::receive() {
  std::array<std::byte, 4096> piece;
  for (;;) {
    const ssize_t got = ::recv(socket.get(), piece.data(), piece.size(), 0);
    if (got < 0 && errno == EINTR) continue;
    if (got < 0 && errno == EAGAIN) return {};
    if (got < 0) return system_failure(Code::io_error, "receiving", errno);
    if (got == 0) return Status(Code::unavailable, "it closed the connection");
    heard.store(Deadline::Clock::now().time_since_epoch().count(), std::memory_order_relaxed);
    reader.add(std::span(piece).first(static_cast<std::size_t>(got)));
    for (;;) {
      const auto frame = reader.next();
      if (!frame.ok()) return frame.status();
      if (!frame->has_value()) break;
      RONDEL_TRY(take(**frame));
    }
  }
}

Status Member::Body::take(std::span<const std::byte> frame) {
  const auto message = decode_to_member(frame);
  if (!message.ok()) return message.status();
  const std::lock_guard lock(mutex);
  const auto* const incident = std::get_if<Incident>(&*message);
  if (incident == nullptr) {
    beat_locked();
    return {};
  }
  for (const auto& watch : watches)
    if (watch->context() == incident->context) raise_once(*watch, *incident);
  return {};
}

Status Member::Body::flush() {
  const std::lock_guard lock(mutex);
  while (!unsent.empty()) {
    const ssize_t sent = ::send(socket.get(), unsent.data(), unsent.size(), MSG_NOSIGNAL);
    if (sent < 0 && errno == EINTR) continue;
    if (sent < 0 && errno == EAGAIN) return {};
    if (sent < 0) return system_failure(Code::io_error, "sending", errno);
    unsent.erase(unsent.begin(), unsent.begin() + sent);
  }
  return {};
}

Incident Member::Body::loss_for(const Watch& watch) const {
  Incident incident;
  incident.context = watch.context();
  incident.code = Code::peer_lost;
  incident.cause = fmt::format("lost the job server at {}", address);
  if (holder.rank != kNoRank)
    incident.cause += fmt::format(", kept by rank {} (host {})", holder.rank, holder.host);
  incident.cause += ": " + why_lost;
  incident.hint = holder.rank == kNoRank ? "look at the launcher's output for the reason"
                                         : "look at that rank's output for the reason";
  // Ranks are numbered as in the job's world, which is the first that a member joins.
  if (first_context == watch.context()) incident.guilty = holder.rank;
  if (incident.guilty != kNoRank) incident.host = holder.host;
  return incident;
}

void Member::Body::lose(const Status& why) {
  const std::lock_guard lock(mutex);
  lost = true;
  why_lost = why.failure().cause;
  unsent.clear();
  for (const auto& watch : watches) raise_once(*watch, loss_for(*watch));
}

/// Sends what is left and a goodbye, and waits until the server has seen them.
void Member::Body::part() {
  if (lost) return;
  Bytes last;
  {
    const std::lock_guard lock(mutex);
    last = std::exchange(unsent, {});
  }
  const Bytes goodbye = framed(encode(ToServer(Goodbye{})));
  last.insert(last.end(), goodbye.begin(), goodbye.end());
  const auto deadline = Deadline::in(kFarewellPatience);
  if (!store::send_all(socket.get(), last, deadline).ok()) return;
  static_cast<void>(::shutdown(socket.get(), SHUT_WR));
  std::array<std::byte, 4096> ignored;
  while (!deadline.passed() && store::receive_some(socket.get(), ignored, deadline).ok()) continue;
}

}  // namespace rondel::liveness
