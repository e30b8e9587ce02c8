// SPDX-License-Identifier: Apache-2.0
// Finishing what the non-blocking calls started: test, wait, wait_any, progress, the event descriptor.
#include <fmt/format.h>
#include <poll.h>

#include <algorithm>
#include <chrono>
#include <cmath>
#include <span>
#include <vector>

#include "bindings/c/comm.h"
#include "lib/deadline.h"

namespace rondel::c {
namespace {

using std::chrono::nanoseconds;

/// The longest single wait for a fabric; longer waits are made of these, so that failures are seen.
constexpr nanoseconds kTurn = std::chrono::milliseconds(100);
/// The same where several communicators must be looked after and one of them has no descriptor.
constexpr nanoseconds kShortTurn = std::chrono::milliseconds(1);
constexpr double kLongestSeconds = 1e8;

Deadline deadline_in(double seconds) {
  const double bounded = seconds < 0 ? kLongestSeconds : std::min(seconds, kLongestSeconds);
  return Deadline::in(std::chrono::duration_cast<nanoseconds>(std::chrono::duration<double>(bounded)));
}

Status check_timeout(double seconds) {
  return std::isnan(seconds) ? wrong("the timeout is not a number") : Status();
}

Status check_request(const rondel_request* request) {
  if (request->magic == rondel_request::kMagic) return {};
  return wrong("the request is none, or has ended already", "use one that a rondel_i... function returned");
}

/// Frees a request whose operation is over or out of reach.
void close_request(rondel_request_t* request) {
  delete *request;
  *request = nullptr;
}

Status orphaned() {
  return Status(Code::aborted, "the communicator was freed while this operation was open",
                "wait for every request before rondel_finalize or rondel_destroy");
}

/// The outcome of an operation that is done.
Status collect(rondel_request_t* request) {
  Status outcome =
      (*request)->comm->communicator->wait((*request)->operation, Deadline::in(nanoseconds::zero()));
  close_request(request);
  return outcome;
}

Status test_on(rondel_comm& comm, rondel_request_t* request, int* done) {
  // What poisons the communicator here reaches this request too, and is collected from it.
  if (!comm.communicator->done((*request)->operation)) (void)comm.communicator->progress(nanoseconds::zero());
  *done = comm.communicator->done((*request)->operation) ? 1 : 0;
  return *done == 1 ? collect(request) : Status();
}

Status wait_on(rondel_comm& comm, rondel_request_t* request, double seconds) {
  Status outcome = comm.communicator->wait((*request)->operation, deadline_in(seconds));
  // A deadline of the caller's alone leaves the operation running; any failure of its own poisons the
  // communicator.
  const bool running = outcome.code() == Code::timed_out && comm.communicator->failure().ok();
  if (!running) close_request(request);
  return outcome;
}

/// The frame of test and wait: NULL is done, an orphan ends here, else `body` runs inside the communicator.
template <class Body>
rondel_status_t finish(rondel_request_t* request, int* done, Body&& body) noexcept {
  if (done != nullptr) *done = 1;
  if (request == nullptr) {
    return answer(
        []() -> Status { return wrong("request is NULL", "pass the address of a rondel_request_t"); });
  }
  if (*request == nullptr) return RONDEL_OK;
  const Status checked = without_exceptions([request] { return check_request(*request); });
  if (!checked.ok()) return conclude(checked);
  if ((*request)->comm == nullptr) {
    close_request(request);
    return answer(orphaned);
  }
  return answer_on((*request)->comm, std::forward<Body>(body));
}

/// Every communicator of a set of requests, each entered once; left again at the end.
class Gathering {
 public:
  Gathering() = default;
  ~Gathering() {
    for (rondel_comm* comm : comms_) comm->leave();
  }
  Gathering(const Gathering&) = delete;
  Gathering& operator=(const Gathering&) = delete;

  Status enter(std::span<const rondel_request_t> requests) {
    comms_.reserve(requests.size());
    for (const rondel_request* request : requests) {
      if (request == nullptr || request->comm == nullptr) continue;
      if (std::find(comms_.begin(), comms_.end(), request->comm) != comms_.end()) continue;
      if (!request->comm->enter()) return overlapping_call();
      comms_.push_back(request->comm);
    }
    return {};
  }

  /// Moves everything; waits up to `may_block_for` for any of the fabrics when there is nothing to do.
  void progress(nanoseconds may_block_for) {
    if (comms_.size() == 1) {
      (void)comms_.front()->communicator->progress(may_block_for);
      return;
    }
    for (rondel_comm* comm : comms_) (void)comm->communicator->progress(nanoseconds::zero());
    if (may_block_for > nanoseconds::zero()) wait_for_any(may_block_for);
  }

 private:
  void wait_for_any(nanoseconds may_block_for) {
    std::vector<pollfd> descriptors;
    for (rondel_comm* comm : comms_) {
      const auto descriptor = comm->communicator->wait_descriptor();
      if (descriptor.ok()) descriptors.push_back({.fd = *descriptor, .events = POLLIN, .revents = 0});
    }
    const bool complete = descriptors.size() == comms_.size();
    const Deadline deadline = Deadline::in(complete ? may_block_for : std::min(may_block_for, kShortTurn));
    (void)::poll(descriptors.data(), descriptors.size(), deadline.left_ms());  // the caller looks for itself
  }

  std::vector<rondel_comm*> comms_;
};

bool ended(const rondel_request* request) {
  if (request == nullptr) return false;
  return request->comm == nullptr || request->comm->communicator->done(request->operation);
}

Status take(rondel_request_t* request) {
  rondel_comm* const comm = (*request)->comm;
  if (comm != nullptr) return after_call(*comm, collect(request));
  close_request(request);
  return orphaned();
}

Status wait_any(std::span<rondel_request_t> requests, double seconds, std::size_t* index) {
  RONDEL_TRY(check_timeout(seconds));
  if (index == nullptr) return wrong("index is NULL");
  const auto open =
      std::find_if(requests.begin(), requests.end(), [](auto* request) { return request != nullptr; });
  if (open == requests.end()) return wrong("all requests are NULL", "wait only while there are open ones");
  for (const rondel_request* request : requests)
    if (request != nullptr) RONDEL_TRY(check_request(request));
  Gathering gathering;
  RONDEL_TRY(gathering.enter(requests));
  const Deadline deadline = deadline_in(seconds);
  for (nanoseconds patience{0};; patience = std::min(kTurn, deadline.left())) {
    if (std::none_of(requests.begin(), requests.end(), ended)) gathering.progress(patience);
    const auto first = std::find_if(requests.begin(), requests.end(), ended);
    if (first != requests.end()) {
      *index = static_cast<std::size_t>(first - requests.begin());
      return take(&*first);
    }
    if (deadline.passed())
      return Status(Code::timed_out,
                    fmt::format("none of {} requests ended within {} s", requests.size(), seconds));
  }
}

/// Posts what was started, so that peers can answer; what has ended already rings at once.
Status arm(rondel_comm& comm, int* descriptor) {
  (void)comm.communicator->progress(nanoseconds::zero());  // a failure ends requests, and those ring
  const bool waiting = std::any_of(comm.open_requests.begin(), comm.open_requests.end(), ended);
  const auto armed = comm.communicator->wait_descriptor(waiting);
  RONDEL_TRY(armed);
  *descriptor = *armed;
  return {};
}

}  // namespace
}  // namespace rondel::c

using rondel::Status;

rondel_status_t rondel_test(rondel_request_t* request, int* done) {
  return rondel::c::finish(request, done, [request, done](rondel_comm& comm) -> Status {
    if (done == nullptr) return rondel::c::wrong("done is NULL");
    return rondel::c::test_on(comm, request, done);
  });
}

rondel_status_t rondel_wait(rondel_request_t* request, double timeout_seconds) {
  return rondel::c::finish(request, nullptr, [request, timeout_seconds](rondel_comm& comm) -> Status {
    RONDEL_TRY(rondel::c::check_timeout(timeout_seconds));
    return rondel::c::wait_on(comm, request, timeout_seconds);
  });
}

rondel_status_t rondel_wait_any(rondel_request_t* requests, size_t count, double timeout_seconds,
                                size_t* index) {
  return rondel::c::answer([requests, count, timeout_seconds, index]() -> Status {
    if (requests == nullptr) return rondel::c::wrong("requests is NULL");
    return rondel::c::wait_any(std::span(requests, count), timeout_seconds, index);
  });
}

rondel_status_t rondel_progress(rondel_comm_t comm, double timeout_seconds) {
  return rondel::c::answer_on(comm, [timeout_seconds](rondel_comm& on) -> Status {
    RONDEL_TRY(rondel::c::check_timeout(timeout_seconds));
    if (timeout_seconds < 0)
      return rondel::c::wrong("the timeout is negative", "use 0 to move without waiting");
    return on.communicator->progress(rondel::c::deadline_in(timeout_seconds).left());
  });
}

rondel_status_t rondel_event_descriptor(rondel_comm_t comm, int* descriptor) {
  return rondel::c::answer_on(comm, [descriptor](rondel_comm& on) -> Status {
    if (descriptor == nullptr) return rondel::c::wrong("descriptor is NULL");
    *descriptor = -1;
    return rondel::c::arm(on, descriptor);
  });
}
