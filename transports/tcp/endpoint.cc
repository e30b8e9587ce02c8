// SPDX-License-Identifier: Apache-2.0
#include "transports/tcp/endpoint.h"

#include <fmt/format.h>
#include <sched.h>
#include <sys/epoll.h>

#include <algorithm>
#include <system_error>
#include <utility>

#include "lib/host_identity.h"
#include "transports/batch.h"
#include "transports/blame.h"

namespace rondel::tcp {
namespace {

// Incoming bytes that are folded stay in the second-level cache.
constexpr std::size_t kStageBytes = 128 * 1024;
constexpr std::size_t kPreferredSegmentBytes = 256 * 1024;
constexpr std::size_t kMaxSlices = 60;
constexpr std::chrono::milliseconds kLookEvery{1000};
// The clock is read once in so many empty turns.
constexpr int kTurnsPerClockLook = 16;

}  // namespace

TcpEndpoint::TcpEndpoint(std::shared_ptr<Listener> listener, HostIdentity host,
                         std::vector<Interface> interfaces, EndpointOptions options,
                         const EndpointPolicy& policy, Readiness readiness)
    : listener_(std::move(listener)),
      host_(std::move(host)),
      interfaces_(std::move(interfaces)),
      options_(std::move(options)),
      policy_(policy),
      patience_(policy.spin, options_.oversubscribed),
      readiness_(std::move(readiness)),
      inbox_(std::make_shared<Inbox>()),
      stage_(kStageBytes),
      by_rank_(static_cast<std::size_t>(options_.size)),
      dials_(static_cast<std::size_t>(options_.size)) {
  capabilities_.max_in_flight = kMaxInFlight;
  capabilities_.max_slices = kMaxSlices;
  capabilities_.preferred_segment_bytes = kPreferredSegmentBytes;
}

Result<std::unique_ptr<Endpoint>> TcpEndpoint::open(std::shared_ptr<Listener> listener,
                                                    std::vector<Interface> interfaces,
                                                    const EndpointOptions& options,
                                                    const EndpointPolicy& policy) {
  auto host = this_host();
  RONDEL_TRY(host);
  auto readiness = Readiness::create();
  RONDEL_TRY(readiness);
  std::unique_ptr<TcpEndpoint> endpoint(new TcpEndpoint(
      std::move(listener), *std::move(host), std::move(interfaces), options, policy, *std::move(readiness)));
  if (endpoint->inbox_->wake_descriptor() < 0)
    return system_failure(Code::out_of_resources, "can not create an eventfd", errno);
  std::uint32_t watched = 0;
  endpoint->readiness_.watch(endpoint->inbox_->wake_descriptor(), EPOLLIN, watched);
  endpoint->listener_->expect(endpoint->key(), options.size, endpoint->inbox_);
  return std::unique_ptr<Endpoint>(std::move(endpoint));
}

TcpEndpoint::~TcpEndpoint() {
  listener_->forget(key());
  abort(Code::aborted);
}

Bytes TcpEndpoint::address() const { return encode(Reach{host_.kernel, host_.name, listener_->sockets()}); }

// The smaller rank dials, the larger one waits to be reached; so no pair of ranks connects twice.
Status TcpEndpoint::connect(std::span<const Bytes> by_rank, std::span<const Rank> neighbours,
                            Deadline deadline) {
  if (!failure_.ok()) return failure_;
  for (const Rank peer : neighbours) {
    if (peer < 0 || peer >= options_.size || peer == options_.rank || by_rank.size() != by_rank_.size())
      return Status(Code::invalid_argument, fmt::format("rank {} can not be a neighbour here", peer));
    const auto index = static_cast<std::size_t>(peer);
    if (by_rank_[index] == nullptr && options_.rank < peer && !dials_[index].goes_on)
      RONDEL_TRY(dial(by_rank[index], peer));
  }
  return await_links(neighbours, deadline);
}

// Until the peer is reached or refuses, whatever deadline the caller has: a peer that has shown itself may
// count the connection as made when this side would give it up.
Status TcpEndpoint::dial(const Bytes& address, Rank peer) {
  auto reach = decode_reach(address);
  if (!reach.ok()) return std::move(reach).status().with(name_of(options_, peer));
  DialOrder order;
  order.hello = {{options_.context, options_.channel, peer}, options_.rank, options_.size};
  order.candidates = candidates(*reach, host_.kernel, interfaces_);
  order.inbox = inbox_;
  dials_[static_cast<std::size_t>(peer)] = {true, Status()};
  listener_->dial(std::move(order));
  return {};
}

Status TcpEndpoint::await_links(std::span<const Rank> neighbours, Deadline deadline) {
  for (;;) {
    RONDEL_TRY(take_arrivals(neighbours));
    const auto missing = std::find_if(neighbours.begin(), neighbours.end(), [this](Rank peer) {
      return by_rank_[static_cast<std::size_t>(peer)] == nullptr;
    });
    if (missing == neighbours.end()) return {};
    if (deadline.passed()) {
      const Status& why = dials_[static_cast<std::size_t>(*missing)].outcome;
      Failure failure;
      failure.peer = *missing;
      failure.cause = fmt::format("no connection to {}: {}", name_of(options_, *missing),
                                  !why.ok()                  ? why.failure().cause
                                  : options_.rank < *missing ? "it did not answer in time"
                                                             : "it did not connect to this rank in time");
      failure.hint =
          "see that the rank runs and that no firewall is between the hosts (RONDEL_NET, RONDEL_PORTS)";
      return Status(Code::timed_out, std::move(failure));
    }
    // Not for the links: one that sends already would keep this thread awake, and the listener's from its
    // core.
    const auto left = std::chrono::ceil<std::chrono::milliseconds>(deadline.left());
    inbox_->wait(std::min(left, std::chrono::milliseconds(20)));
  }
}

// Makes links of the sockets that have arrived. Fails when an awaited rank refused this one.
Status TcpEndpoint::take_arrivals(std::span<const Rank> awaited) {
  if (!inbox_->may_hold_something()) return {};
  for (Arrival& arrival : inbox_->take_all()) {
    const auto index = static_cast<std::size_t>(arrival.peer);
    if (!arrival.status.ok()) {
      dials_[index] = {arrival.status.code() == Code::timed_out, arrival.status};
      if (dials_[index].goes_on) continue;
      if (std::find(awaited.begin(), awaited.end(), arrival.peer) == awaited.end()) continue;
      Failure failure = arrival.status.failure();
      failure.peer = arrival.peer;
      failure.cause = fmt::format("no connection to {}: {}", name_of(options_, arrival.peer), failure.cause);
      return Status(arrival.status.code(), std::move(failure));
    }
    if (by_rank_[index] == nullptr)
      by_rank_[index] = std::make_unique<Link>(arrival.peer, std::move(arrival.socket), std::span(stage_));
  }
  return {};
}

Result<std::unique_ptr<Registration>> TcpEndpoint::register_memory(MemorySpan memory) {
  if (memory.kind != MemoryKind::host)
    return Status(Code::unsupported, "the tcp transport moves host memory only");
  return std::make_unique<Registration>(memory);
}

std::optional<std::size_t> TcpEndpoint::room_for(const Work& work) const {
  const auto index = static_cast<std::size_t>(work.peer);
  if (work.peer < 0 || index >= by_rank_.size() || by_rank_[index] == nullptr) return std::nullopt;
  return by_rank_[index]->room_for(work.verb);
}

Status TcpEndpoint::can_post(std::span<const Work> batch) {
  if (!failure_.ok()) return failure_;
  RONDEL_TRY(validate(batch, capabilities_));
  for (const Work& work : batch) RONDEL_TRY(check_room(batch, work, room_for(work), kMaxInFlight));
  return {};
}

Status TcpEndpoint::post(std::span<const Work> batch, StreamRef /*stream*/) {
  RONDEL_TRY(can_post(batch));
  for (const Work& work : batch) {
    Link* link = by_rank_[static_cast<std::size_t>(work.peer)].get();
    if (!link->wants_to_send() && !link->wants_to_receive()) active_.push_back(link);
    link->post(work);
  }
  patience_.posted();
  return {};
}

// One try of everything that is posted.
Turn TcpEndpoint::turn_of_links() {
  Turn total;
  for (Link* link : active_) {
    if (link->wants_to_send()) {
      const Turn turn = link->send_some();
      total.moved |= turn.moved;
      total.finished += turn.finished;
    }
    if (link->wants_to_receive()) {
      const Turn turn = link->receive_some();
      total.moved |= turn.moved;
      total.finished += turn.finished;
    }
  }
  return total;
}

// Drops links that have nothing left to do; turns the fault of a link into the endpoint's failure.
void TcpEndpoint::settle() {
  for (const Link* link : active_) {
    if (link->faulty()) return poison_by(*link);
  }
  std::erase_if(active_,
                [](const Link* link) { return !link->wants_to_send() && !link->wants_to_receive(); });
}

Result<std::size_t> TcpEndpoint::progress(std::chrono::nanoseconds may_block_for) {
  if (!failure_.ok()) return failure_;
  if (inbox_->may_hold_something()) RONDEL_TRY(take_arrivals({}));
  const auto started = Deadline::Clock::now();
  for (int empty_turns = patience_.slept() ? kTurnsPerClockLook - 1 : 0;;) {
    const Turn turn = turn_of_links();
    const auto faulty = [](const Link* link) { return link->faulty(); };
    if (turn.finished > 0 || turn.moved || std::any_of(active_.begin(), active_.end(), faulty)) settle();
    if (!failure_.ok()) return failure_;
    if (turn.moved || turn.finished > 0) patience_.moved();
    if (turn.finished > 0) return turn.finished;
    if (may_block_for <= std::chrono::nanoseconds::zero() && !turn.moved) return std::size_t{0};
    if (turn.moved) {
      empty_turns = 0;
      continue;
    }
    // Only where ranks share cores: a yield may give away a whole time slice to whatever else runs.
    if (options_.oversubscribed) ::sched_yield();
    if (++empty_turns % kTurnsPerClockLook != 0 && !active_.empty()) continue;
    const auto now = Deadline::Clock::now();
    patience_.look(now);
    if (now - started >= may_block_for) return std::size_t{0};
    if (patience_.polls_on(now, !active_.empty())) continue;
    sleep(may_block_for - (now - started));
    if (inbox_->may_hold_something()) RONDEL_TRY(take_arrivals({}));
    empty_turns = kTurnsPerClockLook - 1;
  }
}

void TcpEndpoint::watch_links() {
  for (Link* link : active_) {
    const std::uint32_t events =
        (link->wants_to_receive() ? EPOLLIN : 0U) | (link->wants_to_send() ? EPOLLOUT : 0U);
    readiness_.watch(link->socket(), events, link->watched_events);
  }
  // A link that is watched but idle would wake us for bytes that nobody wants yet.
  for (const auto& link : by_rank_) {
    if (link != nullptr && link->watched_events != 0 && !link->wants_to_send() && !link->wants_to_receive())
      readiness_.watch(link->socket(), 0, link->watched_events);
  }
}

void TcpEndpoint::sleep(std::chrono::nanoseconds at_most) {
  watch_links();
  readiness_.ring(false);
  readiness_.wait(at_most);
  look_for_silence();
}

// A host that vanished without a word answers neither data nor probes. All links are looked at, not only
// those with works: in a ring the rank that waits is often not the one whose bytes are unanswered.
void TcpEndpoint::look_for_silence() {
  const auto now = Deadline::Clock::now();
  if (now < next_look_) return;
  next_look_ = now + kLookEvery;
  for (const auto& link : by_rank_) {
    const auto silent = link == nullptr ? std::chrono::milliseconds(0) : unanswered_for(link->socket());
    if (silent < policy_.silence || silent == std::chrono::milliseconds(0)) continue;
    return poison(Code::peer_lost, link->peer(),
                  fmt::format("{} has not answered for {:.1f} s", name_of(options_, link->peer()),
                              static_cast<double>(silent.count()) / 1000.0),
                  "its host or the network to it is down; if small messages pass and large ones do not, full "
                  "packets get lost: give all interfaces on the way one MTU");
  }
}

void TcpEndpoint::poison_by(const Link& link) {
  const LinkFault& fault = link.fault();
  if (fault.code == Code::mismatch) mismatch_ = link.mismatch();
  const std::string why =
      fault.error_number != 0 ? std::system_category().message(fault.error_number) : fault.text;
  const char* what = fault.code == Code::peer_lost ? "lost the connection to" : "can not go on with";
  poison(fault.code, link.peer(), fmt::format("{} {}: {}", what, name_of(options_, link.peer()), why));
}

void TcpEndpoint::poison(Code code, Rank peer, std::string cause, std::string hint) {
  if (!failure_.ok()) return;
  failure_ = Status(code, failure_about(options_, peer, std::move(cause), std::move(hint)));
  abort(code);
}

void TcpEndpoint::abort(Code why) noexcept {
  if (failure_.ok()) failure_ = Status(why, "the endpoint was aborted");
  for (const auto& link : by_rank_) {
    if (link == nullptr || link->socket() < 0) continue;
    readiness_.watch(link->socket(), 0, link->watched_events);
    link->fail_all(why);
  }
  active_.clear();
}

int TcpEndpoint::wait_descriptor() {
  look_for_silence();
  watch_links();
  const auto goes_on = [](const Link* link) { return link->can_go_on_without_reading(); };
  readiness_.ring(!failure_.ok() || std::any_of(active_.begin(), active_.end(), goes_on));
  return readiness_.descriptor();
}

std::uint64_t TcpEndpoint::bytes_received() const {
  std::uint64_t bytes = 0;
  for (const auto& link : by_rank_) bytes += link == nullptr ? 0 : link->bytes_received();
  return bytes;
}

std::uint64_t TcpEndpoint::bytes_sent() const {
  std::uint64_t bytes = 0;
  for (const auto& link : by_rank_) bytes += link == nullptr ? 0 : link->bytes_sent();
  return bytes;
}

}  // namespace rondel::tcp
