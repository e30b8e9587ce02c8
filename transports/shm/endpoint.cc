// SPDX-License-Identifier: Apache-2.0
#include "transports/shm/endpoint.h"

#include <fmt/format.h>
#include <sched.h>
#include <sys/epoll.h>

#include <algorithm>
#include <cerrno>
#include <new>
#include <utility>

#include "lib/one_sided_fence.h"
#include "transports/batch.h"
#include "transports/blame.h"

namespace rondel::shm {
namespace {

constexpr std::size_t kStageBytes = 256 * 1024;
constexpr std::size_t kPreferredSegmentBytes = 512 * 1024;
constexpr std::size_t kMaxSlices = 60;
// The clock is read, and the processor given away where ranks share it, once in so many empty turns.
constexpr int kTurnsPerClockLook = 16;
// A caller that never waits still learns of a peer's death.
constexpr int kCallsPerNoteLook = 256;
constexpr std::chrono::milliseconds kLongestDialPause{20};
constexpr std::uint32_t kAwaitsPerNoteLook = 64;
// For a wake that a peer may not have sent.
constexpr std::chrono::milliseconds kLookWithoutFence{1};

}  // namespace

ShmEndpoint::ShmEndpoint(std::unique_ptr<Door> door, const EndpointOptions& options,
                         const EndpointPolicy& policy, Readiness readiness)
    : door_(std::move(door)),
      options_(options),
      patience_(policy.spin, options_.oversubscribed),
      readiness_(std::move(readiness)),
      stage_(kStageBytes),
      by_rank_(static_cast<std::size_t>(options_.size)) {
  capabilities_.max_in_flight = kMaxInFlight;
  capabilities_.max_slices = kMaxSlices;
  capabilities_.preferred_segment_bytes = kPreferredSegmentBytes;
}

Result<std::unique_ptr<Endpoint>> ShmEndpoint::open(const EndpointOptions& options,
                                                    const EndpointPolicy& policy) {
  auto door = Door::open({.rank = options.rank, .pull = policy.pull});
  RONDEL_TRY(door);
  auto readiness = Readiness::create();
  RONDEL_TRY(readiness);
  return std::unique_ptr<Endpoint>(
      new ShmEndpoint(std::move(door).value(), options, policy, *std::move(readiness)));
}

ShmEndpoint::~ShmEndpoint() { abort(Code::aborted); }

// ---- connecting

Status ShmEndpoint::connect(std::span<const Bytes> by_rank, std::span<const Rank> neighbours,
                            Deadline deadline) {
  if (!failure_.ok()) return failure_;
  std::vector<Rank> missing;
  for (const Rank peer : neighbours) {
    if (peer < 0 || peer >= options_.size || peer == options_.rank || by_rank.size() != by_rank_.size())
      return Status(Code::invalid_argument, fmt::format("rank {} can not be a neighbour here", peer));
    if (link_to(peer) == nullptr) missing.push_back(peer);
  }
  for (bool waits = false; !missing.empty(); waits = true) {
    if (waits && deadline.passed())
      return no_connection(missing.front(),
                           Status(Code::timed_out, "it did not connect to this rank in time"));
    // The smaller rank dials, the larger one waits to be reached; so no pair of ranks connects twice.
    for (const Rank peer : std::vector<Rank>(missing)) {
      if (peer < options_.rank) continue;
      auto guest = door_->dial(peer, by_rank[static_cast<std::size_t>(peer)]);
      if (!guest.ok()) return no_connection(peer, guest.status());
      if (*guest) take_in(std::move(**guest), missing);
    }
    const auto pause = std::min<std::chrono::nanoseconds>(kLongestDialPause, deadline.left());
    const bool all = missing.empty();
    auto guests = door_->admit(missing, waits && !all ? pause : std::chrono::nanoseconds::zero());
    RONDEL_TRY(guests);
    for (Door::Guest& guest : *guests) take_in(std::move(guest), missing);
  }
  return {};
}

void ShmEndpoint::take_in(Door::Guest guest, std::vector<Rank>& missing) {
  const Rank peer = guest.peer;
  by_rank_[static_cast<std::size_t>(peer)] =
      std::make_unique<Link>(peer, std::move(guest.connection), std::span(stage_));
  std::erase(missing, peer);
}

Status ShmEndpoint::no_connection(Rank peer, const Status& why) const {
  Failure failure = why.failure();
  failure.peer = peer;
  failure.cause = fmt::format("no connection to {}: {}", name_of(options_, peer), failure.cause);
  if (failure.hint.empty()) failure.hint = "see that the rank runs";
  return Status(why.code(), std::move(failure));
}

Result<std::unique_ptr<Registration>> ShmEndpoint::register_memory(MemorySpan memory) {
  if (memory.kind != MemoryKind::host)
    return Status(Code::unsupported, "the shm transport moves host memory only");
  return std::make_unique<Registration>(memory);
}

// ---- posting

std::optional<std::size_t> ShmEndpoint::room_for(const Work& work) const {
  const auto index = static_cast<std::size_t>(work.peer);
  if (work.peer < 0 || index >= by_rank_.size() || by_rank_[index] == nullptr) return std::nullopt;
  return by_rank_[index]->room_for(work.verb);
}

Status ShmEndpoint::can_post(std::span<const Work> batch) {
  if (!failure_.ok()) return failure_;
  RONDEL_TRY(validate(batch, capabilities_));
  for (const Work& work : batch) RONDEL_TRY(check_room(batch, work, room_for(work), kMaxInFlight));
  return {};
}

Status ShmEndpoint::post(std::span<const Work> batch, StreamRef /*stream*/) {
  RONDEL_TRY(can_post(batch));
  for (const Work& work : batch) {
    Link* link = link_to(work.peer);
    if (!link->busy()) active_.push_back(link);
    link->post(work);
  }
  patience_.posted();
  return {};
}

// ---- moving

Turn ShmEndpoint::turn_of_links() {
  Turn total;
  for (Link* link : active_) {
    const Turn turn = link->turn();
    total.moved |= turn.moved;
    total.finished += turn.finished;
  }
  return total;
}

// Drops links that have nothing left to do; turns the fault of a link into the endpoint's failure.
void ShmEndpoint::settle() {
  for (const Link* link : active_)
    if (link->faulty()) return poison_by(*link);
  std::erase_if(active_, [](const Link* link) { return !link->busy(); });
}

Result<std::size_t> ShmEndpoint::progress(std::chrono::nanoseconds may_block_for) {
  if (!failure_.ok()) return failure_;
  std::optional<Deadline::Clock::time_point> started;  // what moves at once costs no look at the clock
  for (int empty_turns = patience_.slept() ? kTurnsPerClockLook - 1 : 0;;) {
    const Turn turn = turn_of_links();
    const auto faulty = [](const Link* link) { return link->faulty(); };
    if (turn.finished > 0 || turn.moved || std::any_of(active_.begin(), active_.end(), faulty)) settle();
    if (!failure_.ok()) return failure_;
    if (turn.moved || turn.finished > 0) patience_.moved();
    if (turn.finished > 0) return turn.finished;
    if (is_awaited_ready()) {
      patience_.moved();
      return std::size_t{1};
    }
    if (!failure_.ok()) return failure_;
    if (turn.moved) {
      empty_turns = 0;
      continue;
    }
    if (may_block_for <= std::chrono::nanoseconds::zero()) {
      if (++idle_calls_ % kCallsPerNoteLook == 0) read_notes();
      if (!failure_.ok()) return failure_;
      return std::size_t{0};
    }
    const bool busy = !active_.empty() || awaited_ != nullptr;
    if (++empty_turns % kTurnsPerClockLook != 0 && busy) continue;
    if (options_.oversubscribed) ::sched_yield();
    const auto now = Deadline::Clock::now();
    patience_.look(now);
    if (!started) started = now;
    if (now - *started >= may_block_for) return std::size_t{0};
    if (patience_.polls_on(now, busy)) continue;
    sleep(may_block_for - (now - *started));
    empty_turns = kTurnsPerClockLook - 1;
  }
}

void ShmEndpoint::watch_links() {
  for (const auto& link : by_rank_)
    if (link != nullptr) {
      const bool wanted = link->busy() || (awaited_ != nullptr && !link->gone());
      const std::uint32_t events = (wanted ? EPOLLIN : 0U) | (link->waits_for_room() ? EPOLLOUT : 0U);
      readiness_.watch(link->socket(), events, link->watched_events);
    }
}

void ShmEndpoint::fall_asleep() {
  for (Link* link : active_) link->fall_asleep();
  if (awaited_ == nullptr) return;
  head_->sleeping.store(1, std::memory_order_seq_cst);
  std::atomic_thread_fence(std::memory_order_seq_cst);  // pairs with published()
  if (head_->fences_for_all.load(std::memory_order_relaxed) == 0 || OneSidedFence::heavy()) return;
  head_->fences_for_all.store(0, std::memory_order_relaxed);  // a sandbox that came later
}

/// A link whose peer has gone before it has stored what is awaited; null: none.
Link* ShmEndpoint::awaited_and_gone() const {
  if (awaited_ == nullptr) return nullptr;
  for (const auto& link : by_rank_)
    if (link != nullptr && link->gone() && awaited_->waits_for(link->peer())) return link.get();
  return nullptr;
}

bool ShmEndpoint::has_something_to_do() const {
  if (is_awaited_ready() || awaited_and_gone() != nullptr) return true;
  return std::any_of(active_.begin(), active_.end(),
                     [](const Link* link) { return link->has_something_to_do(); });
}

void ShmEndpoint::sleep(std::chrono::nanoseconds at_most) {
  watch_links();
  fall_asleep();
  readiness_.ring(false);
  if (awaited_ != nullptr && fence_is_broken())
    at_most = std::min<std::chrono::nanoseconds>(at_most, kLookWithoutFence);
  if (!has_something_to_do()) readiness_.wait(at_most);
  for (Link* link : active_) link->wake_up();
  if (head_ != nullptr) head_->sleeping.store(0, std::memory_order_relaxed);
  read_notes();
}

void ShmEndpoint::read_notes() {
  for (const auto& link : by_rank_) {
    // Loads and stores wait for any peer, works for their own.
    if (link == nullptr || (awaited_ == nullptr && !link->busy())) continue;
    link->read_notes();
    if (link->faulty()) return poison_by(*link);
  }
  if (Link* const lost = awaited_and_gone()) {
    lost->lose();
    poison_by(*lost);
  }
}

int ShmEndpoint::wait_descriptor() {
  read_notes();
  watch_links();
  const bool was_broken = fence_is_broken();
  fall_asleep();
  // Nobody says how long the caller will sleep, so it gets one more turn when a wake may be missed.
  readiness_.ring(has_something_to_do() || !failure_.ok() || fence_is_broken() != was_broken);
  return readiness_.descriptor();
}

// ---- loads and stores

Status ShmEndpoint::open_board() {
  auto memory = SharedMemory::create(sizeof(BoardHead) + kBoardBytes);
  RONDEL_TRY(memory);
  head_ = new (memory->data()) BoardHead;
  // Where ranks share processors they sleep often, and fences for all would cost more than they save.
  fence_joined_ = !options_.oversubscribed && OneSidedFence::join();
  head_->fences_for_all.store(fence_joined_ ? 1 : 0, std::memory_order_relaxed);
  board_ = std::move(memory).value();
  for (const auto& link : by_rank_) {
    if (link == nullptr || link->show_board(board_->fd())) continue;
    link->read_notes();
    if (!link->gone())
      return Status(Code::unavailable,
                    fmt::format("can not hand {} this rank's board", name_of(options_, link->peer())));
    link->lose();
    poison_by(*link);
    return failure_;
  }
  return {};
}

std::span<std::byte> ShmEndpoint::board() {
  return board_ ? std::span(board_->data() + sizeof(BoardHead), kBoardBytes) : std::span<std::byte>();
}

std::byte* ShmEndpoint::board_of(Rank peer) {
  Link* const link = link_to(peer);
  const auto bytes = link == nullptr ? std::span<std::byte>() : link->board();
  if (link != nullptr && link->faulty()) poison_by(*link);  // no work of its may ever be tried
  return bytes.size() < sizeof(BoardHead) + kBoardBytes ? nullptr : bytes.data() + sizeof(BoardHead);
}

LoadStore::Reference ShmEndpoint::share(const void* data, std::size_t bytes) {
  const auto place = SharedMemory::find(data, bytes);
  if (!place) return {};
  for (const auto& link : by_rank_)
    if (link != nullptr && !link->announce(*place)) return {};
  return {place->id, place->offset};
}

std::byte* ShmEndpoint::reach(Rank peer, Reference what, std::size_t bytes) {
  Link* const link = link_to(peer);
  if (link == nullptr || what.region == 0) return nullptr;
  const auto found = link->reach(what.region, what.offset, bytes);
  return found.empty() ? nullptr : found.data();
}

/// Null before the peer has shown its board.
ShmEndpoint::BoardHead* ShmEndpoint::head_of(const Link& link) {
  const auto bytes = link.shown_board();
  return bytes.empty() ? nullptr : std::launder(reinterpret_cast<BoardHead*>(bytes.data()));
}

bool ShmEndpoint::all_fence_for_us() const {
  if (!fence_joined_) return false;
  return std::all_of(by_rank_.begin(), by_rank_.end(), [](const auto& link) {
    const BoardHead* const head = link == nullptr ? nullptr : head_of(*link);
    return head == nullptr || head->fences_for_all.load(std::memory_order_relaxed) != 0;
  });
}

// The order is: store, look who sleeps; and on the other side: say that it sleeps, look at the boards.
void ShmEndpoint::published() {
  if (all_fence_for_us())
    OneSidedFence::light();  // pairs with heavy() in fall_asleep()
  else
    std::atomic_thread_fence(std::memory_order_seq_cst);  // pairs with fall_asleep()
  for (const auto& link : by_rank_) {
    if (link == nullptr) continue;
    BoardHead* const head = head_of(*link);
    if (head == nullptr) {  // whether it sleeps can not be seen yet
      link->send_wake();
      continue;
    }
    auto& sleeping = head->sleeping;
    if (sleeping.load(std::memory_order_relaxed) != 0 && sleeping.exchange(0, std::memory_order_relaxed) != 0)
      link->send_wake();
  }
}

void ShmEndpoint::await(const Awaited* awaited) {
  awaited_ = awaited;
  if (awaited == nullptr) return;
  patience_.posted();
  // Who never sleeps reads its notes too, else the peers have no room for new ones.
  if (++awaits_ % kAwaitsPerNoteLook == 0) read_notes();
}

void ShmEndpoint::count(std::uint64_t loaded_bytes, std::uint64_t stored_bytes) {
  loaded_bytes_ += loaded_bytes;
  stored_bytes_ += stored_bytes;
}

// ---- failing

void ShmEndpoint::poison_by(const Link& link) {
  if (!failure_.ok()) return;
  const LinkFault& fault = link.fault();
  if (fault.code == Code::mismatch) mismatch_ = link.mismatch();
  const char* what = fault.code == Code::peer_lost ? "lost the connection to" : "can not go on with";
  failure_ = Status(
      fault.code,
      failure_about(options_, link.peer(),
                    fmt::format("{} {}: {}", what, name_of(options_, link.peer()), fault.text), fault.hint));
  abort(fault.code);
}

void ShmEndpoint::abort(Code why) noexcept {
  if (failure_.ok()) failure_ = Status(why, "the endpoint was aborted");
  for (const auto& link : by_rank_) {
    if (link == nullptr || link->socket() < 0) continue;
    readiness_.watch(link->socket(), 0, link->watched_events);
    link->fail_all(why);
  }
  active_.clear();
}

std::uint64_t ShmEndpoint::bytes_received() const {
  std::uint64_t bytes = loaded_bytes_;
  for (const auto& link : by_rank_) bytes += link == nullptr ? 0 : link->bytes_received();
  return bytes;
}

std::uint64_t ShmEndpoint::bytes_sent() const {
  std::uint64_t bytes = stored_bytes_;
  for (const auto& link : by_rank_) bytes += link == nullptr ? 0 : link->bytes_sent();
  return bytes;
}

}  // namespace rondel::shm
