// SPDX-License-Identifier: Apache-2.0
#include "transports/loopback/endpoint.h"

#include <fmt/format.h>
#include <sys/eventfd.h>

#include <algorithm>
#include <cerrno>
#include <chrono>
#include <utility>

#include "lib/wire.h"
#include "transports/batch.h"
#include "transports/blame.h"
#include "transports/slices.h"

namespace rondel::loopback {

namespace {

// No wait of ours is longer; it also keeps clock arithmetic from overflowing.
constexpr std::chrono::nanoseconds kLongestWait = std::chrono::hours(1);

Capabilities loopback_capabilities() {
  Capabilities capabilities;
  capabilities.preferred_segment_bytes = 256 * 1024;
  return capabilities;
}

std::string label_text(const Label& label) {
  return fmt::format("{:x}:{:x}", label.words[0], label.words[1]);
}

}  // namespace

LoopbackEndpoint::LoopbackEndpoint(std::shared_ptr<World> world, const EndpointOptions& options)
    : world_(std::move(world)),
      options_(options),
      capabilities_(loopback_capabilities()),
      port_(world_->open_port()) {}

LoopbackEndpoint::~LoopbackEndpoint() {
  abort(Code::aborted);
  world_->remove_port(port_->id);
}

// ---- connecting

Bytes LoopbackEndpoint::address() const {
  return wire::Writer().number(world_->nonce()).number(port_->id).take();
}

// Connected means: both sides have asked for each other.
Status LoopbackEndpoint::connect(std::span<const Bytes> by_rank, std::span<const Rank> neighbours,
                                 Deadline deadline) {
  if (!failure_.ok()) return failure_;
  std::vector<Peer> invited;
  RONDEL_TRY(invite(by_rank, neighbours, invited));
  return await(invited, deadline);
}

Status LoopbackEndpoint::invite(std::span<const Bytes> by_rank, std::span<const Rank> neighbours,
                                std::vector<Peer>& invited) {
  const Lock lock(world_->mutex);
  for (const Rank rank : neighbours) {
    if (rank < 0 || rank >= options_.size || static_cast<std::size_t>(rank) >= by_rank.size() ||
        rank == options_.rank)
      return {Code::invalid_argument, describe(rank, fmt::format("rank {} can not be a neighbour", rank))};
    if (peers_.contains(rank)) continue;
    wire::Reader address(by_rank[static_cast<std::size_t>(rank)]);
    const auto nonce = address.number<std::uint64_t>();
    const auto id = address.number<PortId>();
    if (!address.finished() || nonce != world_->nonce())
      return {Code::unavailable, describe(rank, fmt::format("rank {} has no address in this process", rank))};
    auto port = world_->find_port(id);
    if (port == nullptr) return lost(rank, Code::aborted);
    port_->wanted.insert(id);
    port->wake();
    invited.push_back({.rank = rank, .port = std::move(port)});
  }
  return {};
}

Status LoopbackEndpoint::await(std::vector<Peer>& invited, Deadline deadline) {
  const auto started = Deadline::Clock::now();
  Lock lock(world_->mutex);
  for (Peer& peer : invited) {
    while (!peer.port->wanted.contains(port_->id)) {
      if (peer.port->closed) return lost(peer.rank, peer.port->closed_with);
      if (port_->changed.wait_until(lock, deadline.when()) != std::cv_status::timeout) continue;
      const std::chrono::duration<double> waited = Deadline::Clock::now() - started;
      return {Code::timed_out, describe(peer.rank, fmt::format("rank {} did not connect within {:.1f} s",
                                                               peer.rank, waited.count()))};
    }
    peer.from_me = &port_->outgoing[peer.port->id];
    peer.to_me = &peer.port->outgoing[port_->id];
    const Rank rank = peer.rank;
    peers_.emplace(rank, std::move(peer));
  }
  return {};
}

Result<std::unique_ptr<Registration>> LoopbackEndpoint::register_memory(MemorySpan memory) {
  if (memory.kind != MemoryKind::host)
    return Status(Code::unsupported, "loopback reaches host memory only", "copy the data to the host first");
  return std::make_unique<Registration>(memory);
}

// ---- posting

Status LoopbackEndpoint::can_post(std::span<const Work> batch) {
  if (!failure_.ok()) return failure_;
  RONDEL_TRY(validate(batch, capabilities_));
  const Lock lock(world_->mutex);
  return check_room(batch);
}

Status LoopbackEndpoint::post(std::span<const Work> batch, StreamRef) {
  RONDEL_TRY(can_post(batch));
  const Lock lock(world_->mutex);
  for (const Work& work : batch) {
    Peer& peer = peers_.at(work.peer);
    if (work.verb == Verb::send) {
      peer.from_me->sends.push_back(
          {{work.local.begin(), work.local.end()}, total_bytes(work.local), work.label, work.done});
      peer.port->wake();
      continue;
    }
    const auto other = work.other.empty() ? work.local : work.other;
    peer.receives.push_back({work.verb,
                             {work.local.begin(), work.local.end()},
                             {other.begin(), other.end()},
                             work.reduction,
                             total_bytes(work.local),
                             work.label,
                             work.done});
  }
  port_->wake();  // the peer's send may be there already
  return {};
}

Status LoopbackEndpoint::check_room(std::span<const Work> batch) const {
  std::map<std::pair<Rank, bool>, std::size_t> in_flight;
  for (const Work& work : batch) {
    const auto found = peers_.find(work.peer);
    if (found == peers_.end())
      return {Code::invalid_argument,
              describe(work.peer, fmt::format("rank {} is not connected", work.peer))};
    const bool sends = work.verb == Verb::send;
    const Peer& peer = found->second;
    auto& works =
        in_flight.try_emplace({work.peer, sends}, sends ? peer.from_me->sends.size() : peer.receives.size())
            .first->second;
    if (++works > capabilities_.max_in_flight)
      return {Code::invalid_argument,
              describe(work.peer,
                       fmt::format("more than {} {} in flight with rank {}", capabilities_.max_in_flight,
                                   sends ? "sends" : "receives", work.peer))};
  }
  return {};
}

// ---- moving

Result<std::size_t> LoopbackEndpoint::progress(std::chrono::nanoseconds may_block_for) {
  const Deadline deadline =
      Deadline::in(std::clamp(may_block_for, std::chrono::nanoseconds::zero(), kLongestWait));
  Lock lock(world_->mutex);
  while (failure_.ok()) {
    port_->woken = false;
    const std::size_t finished = move_all(lock) + finish_moved_sends();
    if (const Peer* peer = first_lost_peer(); failure_.ok() && peer != nullptr)
      poison(lock, lost(peer->rank, peer->port->closed_with));
    if (!failure_.ok()) break;
    if (finished > 0) return finished;
    if (!port_->changed.wait_until(lock, deadline.when(), [this] { return port_->woken; }))
      return std::size_t{0};
  }
  return failure_;
}

std::size_t LoopbackEndpoint::move_all(Lock& lock) {
  std::size_t finished = 0;
  for (auto& [rank, peer] : peers_)
    while (failure_.ok() && move_next(peer, lock)) ++finished;
  return finished;
}

// Pairs the oldest receive with the oldest send that has not been moved. While the bytes are on their way the
// mutex is free, and the mark keeps the sender's close() from returning.
bool LoopbackEndpoint::move_next(Peer& peer, Lock& lock) {
  Outgoing& queue = *peer.to_me;
  if (peer.receives.empty() || peer.port->closed || queue.moved == queue.sends.size()) return false;
  const Send& send = queue.sends[queue.moved];
  const Receive& receive = peer.receives.front();
  if (!labels_agree(peer, receive, send)) {
    poison(lock, {Code::mismatch,
                  describe(peer.rank,
                           fmt::format("rank {} sends {} bytes labelled {} where {} bytes labelled {} were "
                                       "expected",
                                       peer.rank, send.bytes, label_text(send.label), receive.bytes,
                                       label_text(receive.label)))});
    return false;
  }
  queue.moving = true;
  lock.unlock();
  move_bytes(receive, send);
  lock.lock();
  queue.moving = false;
  ++queue.moved;
  peer.port->wake();
  bytes_received_ += receive.bytes;
  receive.done->finish(Code::ok);
  peer.receives.pop_front();
  return true;
}

bool LoopbackEndpoint::labels_agree(const Peer& peer, const Receive& receive, const Send& send) {
  if (receive.label == send.label && receive.bytes == send.bytes) return true;
  mismatch_ = {peer.rank, receive.label, send.label, receive.bytes, send.bytes};
  return false;
}

void LoopbackEndpoint::move_bytes(const Receive& receive, const Send& send) {
  SliceCursor from(send.from);
  SliceCursor to(receive.to);
  if (receive.verb == Verb::recv) return copy_slices(to, from, receive.bytes);
  SliceCursor other(receive.other);
  fold_slices(receive.reduction, to, other, from, receive.bytes);
}

std::size_t LoopbackEndpoint::finish_moved_sends() {
  std::size_t finished = 0;
  for (auto& [rank, peer] : peers_) {
    Outgoing& queue = *peer.from_me;
    for (; queue.moved > 0; --queue.moved, ++finished) {
      bytes_sent_ += queue.sends.front().bytes;
      queue.sends.front().done->finish(Code::ok);
      queue.sends.pop_front();
    }
  }
  return finished;
}

// ---- failing

// A peer that has gone is a failure only for who still needs it.
const LoopbackEndpoint::Peer* LoopbackEndpoint::first_lost_peer() const {
  for (const auto& [rank, peer] : peers_)
    if (peer.port->closed && (!peer.receives.empty() || !peer.from_me->sends.empty())) return &peer;
  return nullptr;
}

Status LoopbackEndpoint::lost(Rank peer, Code closed_with) const {
  return {Code::peer_lost,
          describe(peer, fmt::format("rank {} has closed its endpoint ({})", peer, name_of(closed_with)))};
}

Failure LoopbackEndpoint::describe(Rank peer, std::string cause) const {
  return failure_about(options_, peer, std::move(cause));
}

// Behind this line no peer starts to read our memory, and none is reading it: the wait is for one copy to
// end.
void LoopbackEndpoint::close(Lock& lock, Code why) noexcept {
  port_->closed = true;
  port_->closed_with = why;
  for (auto& [rank, peer] : peers_) {
    port_->changed.wait(lock, [&queue = *peer.from_me] { return !queue.moving; });
    peer.port->wake();
  }
}

void LoopbackEndpoint::poison(Lock& lock, Status why) noexcept {
  if (!failure_.ok()) return;
  failure_ = std::move(why);
  close(lock, failure_.code());
  finish_moved_sends();
  for (auto& [rank, peer] : peers_) {
    for (const Send& send : std::exchange(peer.from_me->sends, {})) send.done->finish(failure_.code());
    for (const Receive& receive : std::exchange(peer.receives, {})) receive.done->finish(failure_.code());
  }
  port_->wake();
}

void LoopbackEndpoint::abort(Code why) noexcept {
  Lock lock(world_->mutex);
  poison(lock, {why, describe(kNoRank, "the endpoint was aborted")});
}

int LoopbackEndpoint::wait_descriptor() {
  const Lock lock(world_->mutex);
  if (!port_->descriptor) port_->descriptor = UniqueFd(::eventfd(0, EFD_NONBLOCK | EFD_CLOEXEC));
  eventfd_t drained = 0;
  if (port_->descriptor) ::eventfd_read(port_->descriptor.get(), &drained);
  if (port_->woken || !failure_.ok()) port_->wake();
  return port_->descriptor.get();
}

}  // namespace rondel::loopback
