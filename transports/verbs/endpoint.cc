// SPDX-License-Identifier: Apache-2.0
#include "transports/verbs/endpoint.h"

#include <fmt/format.h>
#include <sched.h>
#include <sys/epoll.h>

#include <algorithm>
#include <utility>

#include "transports/batch.h"
#include "transports/blame.h"
#include "transports/verbs/frame.h"
#include "transports/verbs/linger.h"
#include "transports/verbs/stages.h"

namespace rondel::verbs {
namespace {

constexpr std::size_t kPreferredSegmentBytes = Stages::kBytes;
// How often the links' sockets are looked at while the queues are polled: each look is a call for each link.
constexpr std::chrono::microseconds kLookEvery{500};
constexpr std::chrono::microseconds kAndForEachRank{5};
// How often strangers and early callers are looked at outside connect().
constexpr std::chrono::milliseconds kMeetEvery{200};
// The clock is read once in so many empty turns.
constexpr int kTurnsPerClockLook = 16;
// For a caller that does not want to wait, while one piece comes after the other.
constexpr std::chrono::nanoseconds kLongestStretch = std::chrono::milliseconds(1);
// How long an eager work may be due before the peer is asked whether it has another in its place: longer than
// ranks that go on wait for each other, so that questions are rare.
constexpr std::chrono::milliseconds kAskAfter{50};
// How long nothing may have come for works that wait, before the way to the peer is tried.
constexpr std::chrono::seconds kTryWayAfter{1};
// The device gives up on a peer that is silent within half of the silence time-out; this is for one that does
// not even do that.
constexpr std::chrono::seconds kLongestLinger{5};

}  // namespace

VerbsEndpoint::VerbsEndpoint(std::shared_ptr<RegistrationCache> memory,
                             std::unique_ptr<CompletionQueues> queues, Meeting meeting,
                             EndpointOptions options, LinkRoom room, std::chrono::milliseconds silence,
                             std::chrono::nanoseconds spin, Readiness readiness)
    : device_(memory->device()),
      queues_(std::move(queues)),
      options_(std::move(options)),
      patience_(std::chrono::duration_cast<SpinBudget::Time>(spin), options_.oversubscribed),
      readiness_(std::move(readiness)),
      meeting_(std::move(meeting)),
      memory_(std::move(memory)),
      links_(device_, *queues_, options_.size, room, patience_for(silence)),
      silence_(silence) {
  // What is registered is locked, and where that is limited it must be able to give way.
  capabilities_.holds_memory = !device_->limits().locked_memory;
  capabilities_.max_in_flight = kMaxInFlight;
  capabilities_.max_slices = kMaxSlices;
  capabilities_.preferred_segment_bytes = kPreferredSegmentBytes;
  readiness_.watch(queues_->descriptor(), EPOLLIN, channel_watched_);
  readiness_.watch(device_->events().descriptor(), EPOLLIN, events_watched_);
  readiness_.watch(device_->events().end_descriptor(), EPOLLIN, end_watched_);
}

Result<std::unique_ptr<Endpoint>> VerbsEndpoint::open(std::shared_ptr<RegistrationCache> memory,
                                                      MeetingPlace place, const EndpointOptions& options,
                                                      const Secret& secret, std::chrono::nanoseconds spin,
                                                      std::uint32_t pairs) {
  const std::shared_ptr<Device>& device = memory->device();
  const auto peers = static_cast<std::uint32_t>(std::max(options.size - 1, 1));
  const LinkRoom room = room_on(*device, peers, pairs);
  auto queues = CompletionQueues::create(device, room.arrivals(), room.departures());
  RONDEL_TRY(queues);
  auto readiness = Readiness::create();
  RONDEL_TRY(readiness);
  const std::chrono::milliseconds silence = place.silence;
  const LinkHello mine{.context = options.context,
                       .channel = options.channel,
                       .to = options.rank,
                       .from = kNoRank,
                       .size = options.size};
  auto meeting = Meeting::open(std::move(place), mine, secret);
  RONDEL_TRY(meeting);
  return std::unique_ptr<Endpoint>(new VerbsEndpoint(std::move(memory), *std::move(queues),
                                                     *std::move(meeting), options, room, silence, spin,
                                                     *std::move(readiness)));
}

VerbsEndpoint::~VerbsEndpoint() {
  if (failure_.ok()) linger(links_, *queues_, Deadline::in(kLongestLinger));
  abort(Code::aborted);
}

Bytes VerbsEndpoint::address() const { return encode(meeting_.reach()); }

// The smaller rank dials, the larger one waits to be reached; so no pair of ranks connects twice.
Status VerbsEndpoint::connect(std::span<const Bytes> by_rank, std::span<const Rank> neighbours,
                              Deadline deadline) {
  if (!failure_.ok()) return failure_;
  for (const Rank peer : neighbours)
    if (peer < 0 || peer >= options_.size || peer == options_.rank ||
        by_rank.size() != static_cast<std::size_t>(options_.size))
      return Status(Code::invalid_argument, fmt::format("rank {} can not be a neighbour here", peer));
  for (const Rank peer : neighbours) {
    meeting_.forget_verdict(peer);
    if (links_.connected(peer) != nullptr || peer < options_.rank) continue;
    auto reach = decode_reach(by_rank[static_cast<std::size_t>(peer)]);
    if (!reach.ok()) return std::move(reach).status().with(name_of(options_, peer));
    meeting_.dial(peer, *reach);
  }
  return await_links(neighbours, deadline);
}

Status VerbsEndpoint::await_links(std::span<const Rank> neighbours, Deadline deadline) {
  constexpr std::chrono::milliseconds kLongestWait{10};  // dials are repeated
  for (std::chrono::milliseconds wait{0};;) {
    meeting_.turn(links_, wait);
    settle_departures();  // who went may come again
    drop_idle();          // on a link of its own
    const auto absent = std::find_if(neighbours.begin(), neighbours.end(),
                                     [this](Rank peer) { return links_.connected(peer) == nullptr; });
    if (absent == neighbours.end()) return {};
    for (const Rank peer : neighbours)
      if (links_.connected(peer) == nullptr && !meeting_.verdict(peer).ok()) return refused_by(peer);
    if (deadline.passed()) return missing(*absent);
    wait = std::min(kLongestWait, std::chrono::ceil<std::chrono::milliseconds>(deadline.left()));
  }
}

// What no later try will change.
Status VerbsEndpoint::refused_by(Rank peer) const {
  const Status& verdict = meeting_.verdict(peer);
  const bool own = verdict.code() == Code::out_of_resources || verdict.code() == Code::unsupported;
  return Status(verdict.code(), failure_about(options_, own ? kNoRank : peer,
                                              fmt::format("no connection to {}: {}", name_of(options_, peer),
                                                          verdict.failure().cause),
                                              verdict.failure().hint));
}

Status VerbsEndpoint::missing(Rank peer) const {
  if (meeting_.accept_error() != 0)
    return system_failure(Code::out_of_resources,
                          fmt::format("no connection to {}: accepting connections", name_of(options_, peer)),
                          meeting_.accept_error());
  const std::string& reason = meeting_.reason(peer);
  Failure failure;
  failure.peer = peer;
  failure.cause = fmt::format("no connection to {}: {}", name_of(options_, peer),
                              !reason.empty()        ? reason
                              : options_.rank < peer ? "it did not answer in time"
                                                     : "it did not connect to this rank in time");
  failure.hint =
      "see that the rank runs and that no firewall is between the hosts (RONDEL_NET, RONDEL_PORTS)";
  return Status(Code::timed_out, std::move(failure));
}

Result<std::unique_ptr<Registration>> VerbsEndpoint::register_memory(MemorySpan memory) {
  if (memory.kind != MemoryKind::host)
    return Status(Code::unsupported, "the verbs transport moves host memory only");
  auto on_device = memory_->find_or_register(memory);
  RONDEL_TRY(on_device);
  return std::unique_ptr<Registration>(std::make_unique<VerbsRegistration>(memory, *std::move(on_device)));
}

std::optional<std::size_t> VerbsEndpoint::room_for(const Work& work) const {
  const Link* const link = links_.connected(work.peer);
  if (link == nullptr) return std::nullopt;
  return link->room_for(work.verb);
}

Status VerbsEndpoint::can_post(std::span<const Work> batch) {
  if (!failure_.ok()) return failure_;
  RONDEL_TRY(validate(batch, capabilities_));
  for (const Work& work : batch) RONDEL_TRY(check_room(batch, work, room_for(work), kMaxInFlight));
  return {};
}

// All works first, then the doorbells: one for each link.
Status VerbsEndpoint::post(std::span<const Work> batch, StreamRef /*stream*/) {
  RONDEL_TRY(can_post(batch));
  for (const Work& work : batch) {
    Link* const link = links_.connected(work.peer);
    if (!link->has_works()) active_.push_back(link);
    link->post(work);
  }
  for (Link* const link : active_) link->pump();
  patience_.posted();
  return {};
}

void VerbsEndpoint::take_arrivals(Turn& turn) {
  for (const ibv_wc& completion : queues_->take_arrivals()) {
    turn.moved = true;
    Link* const link = links_.of(completion);
    if (link == nullptr) continue;  // it was replaced
    turn.finished += link->arrived(completion);
    if (touched_.empty() || touched_.back() != link) touched_.push_back(link);
  }
}

void VerbsEndpoint::take_departures(Turn& turn) {
  for (const ibv_wc& completion : queues_->take_departures()) {
    turn.moved = true;
    Link* const link = links_.of(completion);
    if (link == nullptr) continue;
    turn.finished += link->departed(completion);
    if (touched_.empty() || touched_.back() != link) touched_.push_back(link);
  }
}

VerbsEndpoint::Turn VerbsEndpoint::turn_of_queues() {
  Turn turn;
  for (Link* const link : active_) {
    if (!link->can_take()) continue;
    turn.finished += link->take_held();
    touched_.push_back(link);
  }
  take_arrivals(turn);
  const auto looks = [](const Link* link) { return link->awaits_departures() || link->wants_room(); };
  if (std::exchange(departures_armed_, false) || std::any_of(active_.begin(), active_.end(), looks))
    take_departures(turn);
  for (Link* const link : touched_) link->pump();
  touched_.clear();
  for (Link* const link : active_) turn.finished += link->finish_sent();
  turn.moved |= turn.finished > 0;
  return turn;
}

// Who sleeps must also hear of a message that nobody here waits for and that failed: the receives of its pair
// are not always flushed, and its peer may wait for it. One departure in kSignalEvery wakes a sleeper for
// nothing.
bool VerbsEndpoint::arm_queues() {
  departures_armed_ = std::any_of(links_.all().begin(), links_.all().end(), [](const auto& link) {
    return link != nullptr && !link->settled() && (link->awaits_departures() || link->may_fail());
  });
  return queues_->arm(departures_armed_);
}

// Drops links that have nothing left to do; turns the fault of a link into the endpoint's failure.
void VerbsEndpoint::settle() {
  for (const Link* const link : active_)
    if (link->faulty()) return poison_by(*link);
  drop_idle();
}

void VerbsEndpoint::drop_idle() {
  std::erase_if(active_, [](const Link* link) { return !link->has_works(); });
}

// A link that broke while nothing here needs it is no failure of this endpoint; but its peer may wait for
// what went eagerly and was lost, and hears of it by a closed socket.
void VerbsEndpoint::close_broken() {
  for (const auto& link : links_.all()) {
    if (link == nullptr || !link->is_connected() || link->settled() || link->has_works()) continue;
    link->judge_flush();
    if (!link->faulty()) continue;
    readiness_.watch(link->socket(), 0, link->watched_events);
    link->close(link->fault().code);
  }
}

// The end of the device is the endpoint's, of all its links: no peer is to blame.
void VerbsEndpoint::look_at_device() {
  device_->events().take();
  Status end = device_->events().end();
  if (end.ok() && queues_->broken())
    end = Status(Code::io_error,
                 fmt::format("{}: a completion queue can not be read", device_->choice().device),
                 "see the kernel's log for the device");
  if (!end.ok() && failure_.ok())
    poison(Status(end.code(), failure_about(options_, kNoRank, end.failure().cause, end.failure().hint)));
  if (failure_.ok()) look_at_port();
}

// Not every driver gives up on what it can not send while its port is down. Ports come back, so it is given
// as long as a silent peer.
void VerbsEndpoint::look_at_port() {
  if (!device_->events().port_is_down() || active_.empty()) return port_due_.reset();
  if (!port_due_) port_due_ = Deadline::in(silence_);
  if (!port_due_->passed()) return;
  const std::chrono::duration<double> seconds = silence_;
  poison(
      Status(Code::io_error,
             failure_about(
                 options_, kNoRank,
                 fmt::format("{} is down, and nothing has moved for {:.1f} s", port_text(), seconds.count()),
                 "see the cable, the switch and ip link; RONDEL_SILENCE_TIMEOUT_S sets the limit")));
}

// What the queues do not tell: peers that go, and works that need one that went. Returns works finished.
std::size_t VerbsEndpoint::look_at_links() {
  std::size_t finished = 0;
  departures_armed_ = true;  // the next turn looks, for who polls and never sleeps
  const auto now = Deadline::Clock::now();
  if (now >= next_meeting_) {
    next_meeting_ = now + kMeetEvery;
    meeting_.turn(links_, std::chrono::milliseconds(0));
    memory_->forget_departed();
  }
  finished += settle_departures();
  for (Link* const link : active_) {
    if (link->settled()) finished += link->settle_departure();
    link->judge_flush();
    link->ask(now, kAskAfter);
    link->try_way(now, kTryWayAfter);
    link->pump();  // it may have been asked
  }
  look_at_device();
  settle();
  if (failure_.ok()) close_broken();
  return finished;
}

std::size_t VerbsEndpoint::settle_departures() {
  std::size_t finished = 0;
  for (const auto& link : links_.all())
    if (link != nullptr && link->is_connected() && !link->settled() && link->peer_has_gone())
      finished += settle_departure(*link);
  return finished;
}

std::size_t VerbsEndpoint::look_when_due() {
  const auto now = Deadline::Clock::now();
  if (now < next_look_ && !has_trouble()) return 0;
  next_look_ = now + kLookEvery + kAndForEachRank * options_.size;
  return look_at_links();
}

// All that it sent before it went has arrived, and counts.
std::size_t VerbsEndpoint::settle_departure(Link& link) {
  Turn turn;
  do {
    turn.moved = false;
    take_arrivals(turn);
  } while (turn.moved);
  do {
    turn.moved = false;
    take_departures(turn);
  } while (turn.moved);
  readiness_.watch(link.socket(), 0, link.watched_events);
  turn.finished += link.settle_departure();
  for (Link* const touched : touched_) touched->pump();
  touched_.clear();
  return turn.finished;
}

Result<std::size_t> VerbsEndpoint::progress(std::chrono::nanoseconds may_block_for) {
  if (!failure_.ok()) return failure_;
  // Read when it is first needed: most calls end before.
  std::optional<Deadline::Clock::time_point> began;
  int busy_turns = 0;
  for (int empty_turns = patience_.slept() ? kTurnsPerClockLook - 1 : 0;;) {
    Turn turn = turn_of_queues();
    if (turn.moved) {
      port_due_.reset();
      settle();
    }
    const bool looks =
        may_block_for <= std::chrono::nanoseconds::zero() || empty_turns % kTurnsPerClockLook == 0;
    if (!turn.moved && looks) turn.finished = look_when_due();
    if (!failure_.ok()) return failure_;
    if (turn.moved || turn.finished > 0) patience_.moved();
    if (turn.finished > 0) return turn.finished;
    if (turn.moved) {
      empty_turns = 0;
      if (++busy_turns % kTurnsPerClockLook != 0) continue;
      // Much arrives and nothing ends: look for who has gone, and give the caller its turn.
      const std::size_t finished = look_when_due();
      if (!failure_.ok()) return failure_;
      if (finished > 0) return finished;
      const auto now = Deadline::Clock::now();
      if (!began) began = now;
      if (now - *began >= std::max(may_block_for, kLongestStretch)) return std::size_t{0};
      continue;
    }
    if (may_block_for <= std::chrono::nanoseconds::zero()) return std::size_t{0};
    // Only where ranks share cores: a yield may give away a whole time slice to whatever else runs.
    if (options_.oversubscribed) ::sched_yield();
    if (++empty_turns % kTurnsPerClockLook != 0 && !active_.empty()) continue;
    const auto now = Deadline::Clock::now();
    if (!began) began = now;
    patience_.look(now);
    if (now - *began >= may_block_for) return std::size_t{0};
    if (patience_.polls_on(now, !active_.empty())) continue;
    const std::size_t finished = sleep(may_block_for - (now - *began));
    if (!failure_.ok()) return failure_;
    if (finished > 0) return finished;
    empty_turns = kTurnsPerClockLook - 1;
  }
}

std::vector<Counter> VerbsEndpoint::counters() const {
  const LinkCounts counts = links_.counts();
  return {{"work_requests", counts.work_requests},
          {"signalled", counts.signalled},
          {"receives", counts.receives},
          {"doorbells", counts.doorbells},
          {"staged_bytes", counts.staged_bytes},
          {"eager_sends", counts.eager_sends},
          {"stripe_requests", counts.stripe_requests}};
}

// Something that no descriptor will tell of any more.
bool VerbsEndpoint::has_trouble() const {
  return std::any_of(active_.begin(), active_.end(),
                     [](const Link* link) { return link->faulty() || link->settled(); });
}

void VerbsEndpoint::watch_links() {
  for (const auto& link : links_.all())
    if (link != nullptr && link->is_connected() && !link->settled())
      readiness_.watch(link->socket(), EPOLLIN, link->watched_events);
}

std::size_t VerbsEndpoint::sleep(std::chrono::nanoseconds at_most) {
  if (has_trouble()) return look_at_links();
  watch_links();
  if (arm_queues()) return 0;
  readiness_.ring(false);
  const bool asks =
      std::any_of(active_.begin(), active_.end(), [](const Link* link) { return link->has_question(); });
  const std::chrono::nanoseconds until_look = asks ? std::chrono::nanoseconds(kAskAfter) : kTryWayAfter;
  readiness_.wait(active_.empty() ? at_most : std::min(at_most, until_look));
  return look_at_links();
}

int VerbsEndpoint::wait_descriptor() {
  watch_links();
  const bool arrived = arm_queues();
  next_look_ = {};  // it may be a link's socket that is ready
  bool can_finish = false;
  for (Link* const link : active_) {
    can_finish |= link->can_finish();
    link->ask(Deadline::Clock::now(), std::chrono::nanoseconds::zero());  // the caller may sleep for long
  }
  readiness_.ring(arrived || can_finish || !failure_.ok() || has_trouble());
  return readiness_.descriptor();
}

void VerbsEndpoint::poison_by(const Link& link) {
  if (!failure_.ok()) return;
  const LinkFault& fault = link.fault();
  if (fault.code == Code::mismatch) mismatch_ = link.mismatch();
  device_->events().take();
  const std::string note = device_->events().port_is_down() ? "; " + port_text() + " is down" : "";
  if (fault.local)
    return poison(Status(fault.code, failure_about(options_, kNoRank, fault.text + note, fault.hint)));
  const char* const what = fault.code == Code::peer_lost ? "lost the connection to" : "can not go on with";
  poison(Status(fault.code, failure_about(options_, link.peer(),
                                          fmt::format("{} {}: {}{}", what, name_of(options_, link.peer()),
                                                      fault.text, note),
                                          fault.hint)));
}

// Other ranks may pass it on, so it says whose port it is.
std::string VerbsEndpoint::port_text() const {
  const DeviceChoice& mine = device_->choice();
  return fmt::format("port {}:{} of {}", mine.device, mine.port, name_of(options_, options_.rank));
}

void VerbsEndpoint::poison(Status failure) {
  const Code code = failure.code();
  failure_ = std::move(failure);
  abort(code);
}

void VerbsEndpoint::abort(Code why) noexcept {
  if (failure_.ok()) failure_ = Status(why, "the endpoint was aborted");
  active_.clear();
  touched_.clear();
  for (const auto& link : links_.all()) {
    if (link == nullptr) continue;
    if (link->socket() >= 0) readiness_.watch(link->socket(), 0, link->watched_events);
    link->close(why);
  }
  meeting_.close();
}

}  // namespace rondel::verbs
