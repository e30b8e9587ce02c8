// SPDX-License-Identifier: Apache-2.0
// What the opaque handles of the C interface point to, and the frame of every call on them: handle checked,
// one thread at a time, exceptions caught, failure remembered. Owned by the caller of the C interface.
#pragma once

#include <atomic>
#include <cstdint>
#include <memory>
#include <set>
#include <string>
#include <utility>

#include "bindings/c/errors.h"
#include "bindings/c/job.h"
#include "ring/communicator.h"

struct rondel_comm {
  static constexpr std::uint32_t kMagic = 0x6d6d6f63;  // "comm"
  std::uint32_t magic = kMagic;
  std::shared_ptr<rondel::c::JobHold> hold;  // goes after the communicator
  std::unique_ptr<rondel::Communicator> communicator;
  rondel::Status last_failure;
  std::set<rondel_request*> open_requests;
  std::set<std::uint64_t> registrations;
  rondel::Rank local_rank = 0;
  rondel::Rank local_size = 1;
  std::string transport;
  /// Set while a call is inside; the acquire in enter() pairs with the release in leave().
  std::atomic<bool> busy{false};

  bool enter() { return !busy.exchange(true, std::memory_order_acquire); }
  void leave() { busy.store(false, std::memory_order_release); }
};

struct rondel_request {
  static constexpr std::uint32_t kMagic = 0x74736571;  // "qest"
  std::uint32_t magic = kMagic;
  rondel_comm* comm = nullptr;  ///< null once the communicator is gone
  rondel::OperationId operation = 0;

  explicit rondel_request(rondel_comm& on) : comm(&on) { on.open_requests.insert(this); }
  ~rondel_request() {
    magic = 0;
    if (comm != nullptr) comm->open_requests.erase(this);
  }
  rondel_request(const rondel_request&) = delete;
  rondel_request& operator=(const rondel_request&) = delete;
};

namespace rondel::c {

/// invalid_argument for what is no communicator of ours.
Status check_handle(const rondel_comm* comm);

/// One call's stay inside a communicator.
class Stay {
 public:
  explicit Stay(rondel_comm& comm) : comm_(comm.enter() ? &comm : nullptr) {}
  ~Stay() {
    if (comm_ != nullptr) comm_->leave();
  }
  Stay(const Stay&) = delete;
  Stay& operator=(const Stay&) = delete;
  bool alone() const { return comm_ != nullptr; }

 private:
  rondel_comm* comm_;
};

Status overlapping_call();
/// Poisons `comm` when `status` says that a call was cut short in the middle.
Status after_call(rondel_comm& comm, Status status) noexcept;

/// The whole of a function on one communicator: `body` gets it and returns a Status.
template <class Body>
rondel_status_t answer_on(rondel_comm* comm, Body&& body) noexcept {
  return conclude(without_exceptions([comm, &body]() -> Status {
    RONDEL_TRY(check_handle(comm));
    const Stay stay(*comm);
    if (!stay.alone()) return overlapping_call();
    return after_call(*comm, without_exceptions([comm, &body] { return body(*comm); }));
  }));
}

/// A handle for `communicator`. Local rank and size by equal host names.
std::unique_ptr<rondel_comm> make_handle(std::shared_ptr<JobHold> hold,
                                         std::unique_ptr<Communicator> communicator);

}  // namespace rondel::c
