// SPDX-License-Identifier: Apache-2.0
#include "bindings/c/comm.h"

namespace rondel::c {

Status check_handle(const rondel_comm* comm) {
  if (comm == nullptr)
    return wrong("the communicator is NULL", "use one that rondel_init or its kin returned");
  if (comm->magic != rondel_comm::kMagic)
    return wrong("the communicator is none, or was freed already",
                 "use one that rondel_init or its kin returned");
  return {};
}

Status overlapping_call() {
  return wrong("another thread is inside a call on this communicator",
               "let one thread at a time use it, or give each its own by rondel_duplicate");
}

Status after_call(rondel_comm& comm, Status status) noexcept {
  if (status.ok()) return status;
  // Only what was thrown comes without an operation; what it cut short can not go on.
  const bool cut_short = status.code() == Code::out_of_resources || status.code() == Code::internal;
  const Status kept = without_exceptions([&comm, &status, cut_short] {
    if (cut_short && comm.communicator != nullptr && comm.communicator->failure().ok())
      comm.communicator->abort(status.text());
    comm.last_failure = status;
    return Status();
  });
  return kept.ok() ? status : kept;
}

std::unique_ptr<rondel_comm> make_handle(std::shared_ptr<JobHold> hold,
                                         std::unique_ptr<Communicator> communicator) {
  auto handle = std::make_unique<rondel_comm>();
  const Rank rank = communicator->rank();
  handle->local_size = 0;
  for (Rank other = 0; other < communicator->size(); ++other) {
    if (communicator->host_of(other) != communicator->host_of(rank)) continue;
    if (other < rank) ++handle->local_rank;
    ++handle->local_size;
  }
  handle->transport = communicator->transport_name();
  handle->hold = std::move(hold);
  handle->communicator = std::move(communicator);
  return handle;
}

}  // namespace rondel::c
