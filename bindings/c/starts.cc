// SPDX-License-Identifier: Apache-2.0
// The non-blocking collectives: each forwards to Communicator::start, which copies the counts.
#include "bindings/c/collectives.h"

namespace rondel::c {
namespace {

rondel_status_t start_on(rondel_comm_t comm, const Arguments& arguments, rondel_request_t* request) noexcept {
  if (request != nullptr) *request = nullptr;
  return answer_on(comm, [&arguments, request](rondel_comm& on) -> Status {
    if (request == nullptr) return wrong("request is NULL", "pass the address of a rondel_request_t");
    const auto wanted = to_request(arguments, on.communicator->size());
    RONDEL_TRY(wanted);
    auto handle = std::make_unique<rondel_request>(on);
    const auto operation = on.communicator->start(*wanted);
    RONDEL_TRY(operation);
    handle->operation = *operation;
    *request = handle.release();
    return {};
  });
}

}  // namespace
}  // namespace rondel::c

using rondel::CollectiveKind;
using rondel::c::start_on;

rondel_status_t rondel_iallreduce(rondel_comm_t comm, const void* input, void* output, uint64_t count,
                                  rondel_dtype_t type, rondel_op_t op, rondel_request_t* request) {
  return start_on(comm,
                  {.kind = CollectiveKind::all_reduce,
                   .input = input,
                   .output = output,
                   .count = count,
                   .type = type,
                   .op = op},
                  request);
}

rondel_status_t rondel_ireduce_scatter(rondel_comm_t comm, const void* input, void* output, uint64_t count,
                                       rondel_dtype_t type, rondel_op_t op, rondel_request_t* request) {
  return start_on(comm,
                  {.kind = CollectiveKind::reduce_scatter,
                   .input = input,
                   .output = output,
                   .count = count,
                   .type = type,
                   .op = op},
                  request);
}

rondel_status_t rondel_ireduce_scatterv(rondel_comm_t comm, const void* input, void* output,
                                        const uint64_t* counts, rondel_dtype_t type, rondel_op_t op,
                                        rondel_request_t* request) {
  return start_on(comm,
                  {.kind = CollectiveKind::reduce_scatter,
                   .input = input,
                   .output = output,
                   .type = type,
                   .op = op,
                   .has_counts = true,
                   .counts = counts},
                  request);
}

rondel_status_t rondel_iallgather(rondel_comm_t comm, const void* input, void* output, uint64_t count,
                                  rondel_dtype_t type, rondel_request_t* request) {
  return start_on(
      comm,
      {.kind = CollectiveKind::all_gather, .input = input, .output = output, .count = count, .type = type},
      request);
}

rondel_status_t rondel_iallgatherv(rondel_comm_t comm, const void* input, void* output,
                                   const uint64_t* counts, rondel_dtype_t type, rondel_request_t* request) {
  return start_on(comm,
                  {.kind = CollectiveKind::all_gather,
                   .input = input,
                   .output = output,
                   .type = type,
                   .has_counts = true,
                   .counts = counts},
                  request);
}

rondel_status_t rondel_ibroadcast(rondel_comm_t comm, const void* input, void* output, uint64_t count,
                                  rondel_dtype_t type, int32_t root, rondel_request_t* request) {
  return start_on(comm,
                  {.kind = CollectiveKind::broadcast,
                   .input = input,
                   .output = output,
                   .count = count,
                   .type = type,
                   .root = root},
                  request);
}

rondel_status_t rondel_ireduce(rondel_comm_t comm, const void* input, void* output, uint64_t count,
                               rondel_dtype_t type, rondel_op_t op, int32_t root, rondel_request_t* request) {
  return start_on(comm,
                  {.kind = CollectiveKind::reduce,
                   .input = input,
                   .output = output,
                   .count = count,
                   .type = type,
                   .op = op,
                   .root = root},
                  request);
}

rondel_status_t rondel_igather(rondel_comm_t comm, const void* input, void* output, uint64_t count,
                               rondel_dtype_t type, int32_t root, rondel_request_t* request) {
  return start_on(comm,
                  {.kind = CollectiveKind::gather,
                   .input = input,
                   .output = output,
                   .count = count,
                   .type = type,
                   .root = root},
                  request);
}

rondel_status_t rondel_igatherv(rondel_comm_t comm, const void* input, void* output, const uint64_t* counts,
                                rondel_dtype_t type, int32_t root, rondel_request_t* request) {
  return start_on(comm,
                  {.kind = CollectiveKind::gather,
                   .input = input,
                   .output = output,
                   .type = type,
                   .root = root,
                   .has_counts = true,
                   .counts = counts},
                  request);
}

rondel_status_t rondel_iscatter(rondel_comm_t comm, const void* input, void* output, uint64_t count,
                                rondel_dtype_t type, int32_t root, rondel_request_t* request) {
  return start_on(comm,
                  {.kind = CollectiveKind::scatter,
                   .input = input,
                   .output = output,
                   .count = count,
                   .type = type,
                   .root = root},
                  request);
}

rondel_status_t rondel_iscatterv(rondel_comm_t comm, const void* input, void* output, const uint64_t* counts,
                                 rondel_dtype_t type, int32_t root, rondel_request_t* request) {
  return start_on(comm,
                  {.kind = CollectiveKind::scatter,
                   .input = input,
                   .output = output,
                   .type = type,
                   .root = root,
                   .has_counts = true,
                   .counts = counts},
                  request);
}

rondel_status_t rondel_ialltoall(rondel_comm_t comm, const void* input, void* output, uint64_t count,
                                 rondel_dtype_t type, rondel_request_t* request) {
  return start_on(
      comm,
      {.kind = CollectiveKind::all_to_all, .input = input, .output = output, .count = count, .type = type},
      request);
}

rondel_status_t rondel_ialltoallv(rondel_comm_t comm, const void* input, const uint64_t* send_counts,
                                  void* output, const uint64_t* receive_counts, rondel_dtype_t type,
                                  rondel_request_t* request) {
  return start_on(comm,
                  {.kind = CollectiveKind::all_to_all,
                   .input = input,
                   .output = output,
                   .type = type,
                   .has_counts = true,
                   .counts = send_counts,
                   .receive_counts = receive_counts},
                  request);
}

rondel_status_t rondel_ibarrier(rondel_comm_t comm, rondel_request_t* request) {
  return start_on(comm, {.kind = CollectiveKind::barrier}, request);
}

rondel_status_t rondel_isend(rondel_comm_t comm, const void* input, uint64_t count, rondel_dtype_t type,
                             int32_t peer, rondel_request_t* request) {
  return start_on(comm,
                  {.kind = CollectiveKind::send, .input = input, .count = count, .type = type, .root = peer},
                  request);
}

rondel_status_t rondel_irecv(rondel_comm_t comm, void* output, uint64_t count, rondel_dtype_t type,
                             int32_t peer, rondel_request_t* request) {
  return start_on(
      comm, {.kind = CollectiveKind::recv, .output = output, .count = count, .type = type, .root = peer},
      request);
}
