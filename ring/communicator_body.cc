// SPDX-License-Identifier: Apache-2.0
#include "ring/communicator_body.h"

#include <fmt/format.h>
#include <poll.h>
#include <sched.h>
#include <sys/epoll.h>
#include <sys/timerfd.h>

#include <algorithm>
#include <cerrno>
#include <utility>

namespace rondel {
namespace {

constexpr std::chrono::milliseconds kSlice{50};            // an alarm is seen within this
constexpr std::chrono::milliseconds kConnectLook{2};       // while a peer has not connected yet
constexpr std::chrono::milliseconds kDescriptorLook{500};  // while something is open, in an event loop
constexpr std::chrono::milliseconds kDrain{100};           // for what a rank sent before it went
constexpr int kTurnsPerDeadlineLook = 16;
constexpr int kTriesBeforePoll = 64;

Limits limits_of(const Attachment& attachment) {
  if (attachment.data == nullptr) return {};
  const Capabilities& capabilities = attachment.data->capabilities();
  return {capabilities.preferred_segment_bytes, capabilities.max_in_flight, capabilities.max_slices};
}

/// What comes to an idle endpoint is taken first, as no later progress does it: it would keep the descriptor
/// readable. A failure there is told to the next operation that needs it.
int descriptor_of(Endpoint& endpoint, bool idle) {
  if (idle) (void)endpoint.progress(std::chrono::nanoseconds::zero());
  return endpoint.wait_descriptor();
}

}  // namespace

Communicator::Body::Body(std::shared_ptr<Job> shared_job, CommunicatorOptions own_options,
                         std::shared_ptr<liveness::Watch> joined, Attachment made,
                         std::optional<Algorithm> algorithm)
    : job(std::move(shared_job)),
      options(std::move(own_options)),
      attachment(std::move(made)),
      health(std::move(joined), options.size > 1 ? job->member.get() : nullptr, options.rank,
             attachment.hosts),
      planner_(options.rank, options.size,
               Tuning(attachment.cost, limits_of(attachment), algorithm, options.segment_bytes),
               attachment.order, attachment.places),
      collectives_(attachment.data.get(), attachment.data_addresses, options.rank, options.size, planner_,
                   health, !algorithm),
      pairs_(attachment.pairs.get(), attachment.pair_addresses) {}

Communicator::Body::~Body() {
  const Status gone(Code::aborted, "the communicator was destroyed");
  // Operations first: what they lend to the endpoints must not be touched once their buffers may go.
  if (attachment.data != nullptr && !collectives_.idle()) attachment.data->abort(Code::aborted);
  if (attachment.pairs != nullptr && !pairs_.idle()) attachment.pairs->abort(Code::aborted);
  collectives_.fail(gone);
  pairs_.fail(gone);
}

Status Communicator::Body::check_usable(const CollectiveRequest* wanted) {
  if (health.poisoned()) return health.failure();
  if (!health.alarmed()) return {};
  const Status verdict = health.judge_alarm();
  Failure failure = verdict.failure();
  if (wanted != nullptr) failure.operation = describe(*wanted, next_number(wanted->kind));
  return fail_with(Status(verdict.code(), std::move(failure)), nullptr);
}

/// The number that the next operation will have on its lane.
std::uint64_t Communicator::Body::next_number(CollectiveKind kind) const {
  return point_to_point(kind) ? pairs_.started() + 1 : collectives_.started() + 1;
}

void Communicator::Body::enqueue(Operation& operation) {
  point_to_point(operation.request.kind) ? pairs_.enqueue(operation) : collectives_.enqueue(operation);
}

Status Communicator::Body::run(const CollectiveRequest& request) {
  RONDEL_TRY(check_usable(&request));
  const auto footprint = check_request(request, options.rank, options.size);
  RONDEL_TRY(footprint);
  direct_.begin(request, *footprint, options.timeout);
  enqueue(direct_);
  return run_to_end(direct_, Deadline::at(Deadline::Clock::time_point::max()));
}

Result<OperationId> Communicator::Body::start(const CollectiveRequest& request) {
  RONDEL_TRY(check_usable(&request));
  const auto footprint = check_request(request, options.rank, options.size);
  RONDEL_TRY(footprint);
  auto operation = std::make_unique<Operation>();
  operation->begin(request, *footprint, options.timeout);
  operation->keep_counts();
  enqueue(*operation);
  started_.emplace(++last_id_, std::move(operation));
  return last_id_;
}

/// Until the operation is done or `deadline` passes; then timed_out, with the operation still on its way.
Status Communicator::Body::run_to_end(const Operation& operation, Deadline deadline) {
  if (operation.done) return operation.status;
  if (health.poisoned()) return health.failure();
  RONDEL_TRY(advance());
  while (!operation.done) {
    const bool limited = deadline.when() != Deadline::Clock::time_point::max();
    if (limited && deadline.passed())
      return Status(Code::timed_out, fmt::format("{} is still on its way", describe(operation.request)),
                    "wait again, or longer");
    RONDEL_TRY(turn(limited ? std::min<std::chrono::nanoseconds>(deadline.left(), kSlice) : kSlice));
  }
  return operation.status;
}

Status Communicator::Body::progress(std::chrono::nanoseconds may_block_for) {
  if (collectives_.idle() && pairs_.idle()) return check_usable();
  if (health.poisoned()) return health.failure();
  RONDEL_TRY(advance());
  if (collectives_.idle() && pairs_.idle()) return {};
  return turn(std::min<std::chrono::nanoseconds>(may_block_for, kSlice));
}

bool Communicator::Body::done(OperationId id) const {
  const auto found = started_.find(id);
  return found == started_.end() || found->second->done;
}

Status Communicator::Body::wait(OperationId id, Deadline deadline) {
  const auto found = started_.find(id);
  if (found == started_.end())
    return Status(Code::invalid_argument, fmt::format("there is no operation {} to wait for", id),
                  "an operation is waited for once");
  Status ended = run_to_end(*found->second, deadline);
  if (!found->second->done) return ended;
  ended = found->second->status;
  started_.erase(found);
  return ended;
}

Status Communicator::Body::turn(std::chrono::nanoseconds may_block_for) {
  const auto finished = progress_endpoints(may_block_for);
  if (health.alarmed()) return after_alarm(finished);
  if (!finished.ok()) return fail(finished.status());
  RONDEL_TRY(advance());
  if (*finished > 0 && ++turns_ % kTurnsPerDeadlineLook != 0) return {};
  return check_deadlines();
}

/// A rank that went may have sent all that is needed here; what is under way goes on for a moment, until it
/// is done or its links are at their end. New operations fail at once.
Status Communicator::Body::after_alarm(const Result<std::size_t>& finished) {
  const Status verdict = health.judge_alarm();
  const bool went = verdict.code() == Code::peer_lost || verdict.code() == Code::peer_left;
  if (!drain_until_) drain_until_ = Deadline::in(kDrain);
  if (went && finished.ok() && !drain_until_->passed()) return advance();
  return fail_with(verdict, nullptr);
}

Status Communicator::Body::advance() {
  if (!collectives_.idle())
    if (const Status moved = collectives_.advance(); !moved.ok()) return fail(moved);
  if (!pairs_.idle())
    if (const Status moved = pairs_.advance(); !moved.ok()) return fail(moved);
  return {};
}

Result<std::size_t> Communicator::Body::progress_endpoints(std::chrono::nanoseconds may_block_for) {
  if (connecting()) may_block_for = std::min<std::chrono::nanoseconds>(may_block_for, kConnectLook);
  if (pairs_.idle()) {
    if (collectives_.idle()) return std::size_t{0};
    return attachment.data->progress(may_block_for);
  }
  if (collectives_.idle()) return attachment.pairs->progress(may_block_for);
  return progress_both(may_block_for);
}

/// Looks at both endpoints for a while, then sleeps until one of them has something.
Result<std::size_t> Communicator::Body::progress_both(std::chrono::nanoseconds may_block_for) {
  const Deadline deadline = Deadline::in(may_block_for);
  for (int tries = 0;; ++tries) {
    const auto data = attachment.data->progress(std::chrono::nanoseconds::zero());
    RONDEL_TRY(data);
    const auto pairs = attachment.pairs->progress(std::chrono::nanoseconds::zero());
    RONDEL_TRY(pairs);
    if (*data + *pairs > 0 || deadline.passed()) return *data + *pairs;
    if (tries < kTriesBeforePoll) {
      ::sched_yield();
      continue;
    }
    pollfd ready[] = {{attachment.data->wait_descriptor(), POLLIN, 0},
                      {attachment.pairs->wait_descriptor(), POLLIN, 0}};
    const bool blind =
        ready[0].fd < 0 || ready[1].fd < 0;  // an endpoint without a descriptor is looked at each ms
    ::poll(ready, 2, blind ? 1 : deadline.left_ms());
  }
}

Status Communicator::Body::check_deadlines() {
  if (!collectives_.idle() && collectives_.current().deadline().passed())
    return time_out(collectives_.current(), collectives_.waiting_for());
  if (!pairs_.idle() && pairs_.most_urgent().deadline().passed())
    return time_out(pairs_.most_urgent(), pairs_.most_urgent().request.root);
  return {};
}

Status Communicator::Body::time_out(const Operation& operation, Rank peer) {
  const std::chrono::duration<double> limit = options.timeout;
  Failure failure;
  failure.peer = peer;
  failure.cause = peer == kNoRank
                      ? fmt::format("not done within {:.1f} s", limit.count())
                      : fmt::format("rank {} did not answer within {:.1f} s", peer, limit.count());
  failure.hint = "RONDEL_TIMEOUT_S sets the limit for each operation";
  return fail(Status(Code::timed_out, std::move(failure)), &operation);
}

/// The operation that a failure is told with, when it is not known: one whose endpoint broke, else any.
const Operation* Communicator::Body::affected_operation() {
  const bool pairs_broke = attachment.pairs != nullptr && !attachment.pairs->failure().ok();
  if (!collectives_.idle() && (!pairs_broke || pairs_.idle())) return &collectives_.current();
  return pairs_.idle() ? nullptr : &pairs_.most_urgent();
}

Status Communicator::Body::fail(const Status& status, const Operation* operation) {
  if (operation == nullptr) operation = affected_operation();
  const Endpoint* broken = nullptr;
  for (const auto* endpoint : {&attachment.data, &attachment.pairs})
    if (*endpoint != nullptr && !(*endpoint)->failure().ok()) broken = endpoint->get();
  const std::string what =
      operation == nullptr ? std::string() : describe(operation->request, operation->sequence);
  const auto mismatch = broken != nullptr ? broken->mismatch() : collectives_.mismatch();
  const Status verdict = health.judge(status, mismatch, operation == nullptr ? 0 : operation->entered, what);
  return fail_with(verdict, operation);
}

Status Communicator::Body::fail_with(const Status& verdict, const Operation* operation) {
  if (health.poisoned()) return health.failure();
  if (operation == nullptr) operation = affected_operation();
  Failure failure = verdict.failure();
  failure.rank = options.rank;
  if (operation != nullptr) {
    failure.operation = describe(operation->request, operation->sequence);
    const auto& endpoint = point_to_point(operation->request.kind) ? attachment.pairs : attachment.data;
    if (endpoint != nullptr) failure.bytes_done = endpoint->bytes_received() - operation->bytes_before;
  }
  Status final_failure(verdict.code(), std::move(failure));
  if (attachment.data != nullptr) attachment.data->abort(verdict.code());
  if (attachment.pairs != nullptr) attachment.pairs->abort(verdict.code());
  health.poison(final_failure);
  collectives_.fail(final_failure);
  pairs_.fail(final_failure);
  return final_failure;
}

Result<int> Communicator::Body::wait_descriptor(bool ready) {
  const bool alone = attachment.data == nullptr;
  if (!readiness_) RONDEL_TRY(make_descriptor());
  if (!alone) {
    const int data = descriptor_of(*attachment.data, collectives_.idle());
    const int pairs = descriptor_of(*attachment.pairs, pairs_.idle());
    if (data >= 0) readiness_->watch(data, EPOLLIN, watched_[0]);
    if (pairs >= 0) readiness_->watch(pairs, EPOLLIN, watched_[1]);
    const bool blind = data < 0 || pairs < 0;
    set_clock(blind ? std::min<std::chrono::nanoseconds>(next_look(), kConnectLook) : next_look());
  }
  readiness_->ring(ready || alone || (health.alarmed() && !drain_until_));
  return readiness_->descriptor();
}

/// Zero: never.
void Communicator::Body::set_clock(std::chrono::nanoseconds in) {
  const auto seconds = std::chrono::duration_cast<std::chrono::seconds>(in);
  itimerspec when{};
  when.it_value = {seconds.count(), (in - seconds).count()};
  ::timerfd_settime(clock_.get(), 0, &when, nullptr);
}

Status Communicator::Body::make_descriptor() {
  auto readiness = Readiness::create();
  RONDEL_TRY(readiness);
  UniqueFd clock(::timerfd_create(CLOCK_MONOTONIC, TFD_NONBLOCK | TFD_CLOEXEC));
  if (!clock) return system_failure(Code::out_of_resources, "making a clock to wait on", errno);
  std::uint32_t watched = 0;
  readiness->watch(clock.get(), EPOLLIN, watched);
  readiness_ = std::move(readiness).value();
  clock_ = std::move(clock);
  return {};
}

/// In how long progress has something to do whatever the endpoints see: what a waiting call looks at by
/// itself.
std::chrono::nanoseconds Communicator::Body::next_look() {
  if (collectives_.idle() && pairs_.idle()) return std::chrono::nanoseconds::zero();  // never
  std::chrono::nanoseconds in = connecting() ? kConnectLook : kDescriptorLook;
  if (drain_until_) in = std::min<std::chrono::nanoseconds>(in, drain_until_->left());
  if (!collectives_.idle()) in = std::min(in, collectives_.current().deadline().left());
  if (!pairs_.idle()) in = std::min(in, pairs_.most_urgent().deadline().left());
  return std::max(in, std::chrono::nanoseconds(1));
}

Result<std::uint64_t> Communicator::Body::remember_memory(MemorySpan memory) {
  const std::uint64_t name = ++last_memory_;
  RONDEL_TRY(collectives_.known_memory.add(name, memory));
  if (Status added = pairs_.known_memory.add(name, memory); !added.ok()) {
    collectives_.known_memory.remove(name);
    return added;
  }
  return name;
}

void Communicator::Body::forget_memory(std::uint64_t name) {
  collectives_.known_memory.remove(name);
  pairs_.known_memory.remove(name);
}

}  // namespace rondel
