// SPDX-License-Identifier: Apache-2.0
// The blocking collectives: each forwards to Communicator::run.
#include "bindings/c/collectives.h"

#include <fmt/format.h>

namespace rondel::c {
namespace {

static_assert(static_cast<int>(DataType::int8) == RONDEL_INT8);
static_assert(static_cast<int>(DataType::uint8) == RONDEL_UINT8);
static_assert(static_cast<int>(DataType::int16) == RONDEL_INT16);
static_assert(static_cast<int>(DataType::int32) == RONDEL_INT32);
static_assert(static_cast<int>(DataType::int64) == RONDEL_INT64);
static_assert(static_cast<int>(DataType::float16) == RONDEL_FLOAT16);
static_assert(static_cast<int>(DataType::bfloat16) == RONDEL_BFLOAT16);
static_assert(static_cast<int>(DataType::float32) == RONDEL_FLOAT32);
static_assert(static_cast<int>(DataType::float64) == RONDEL_FLOAT64);
static_assert(static_cast<int>(DataType::boolean) == RONDEL_BOOL);
static_assert(kDataTypeCount == RONDEL_BOOL + 1);

static_assert(static_cast<int>(ReduceOp::sum) == RONDEL_SUM);
static_assert(static_cast<int>(ReduceOp::average) == RONDEL_AVERAGE);
static_assert(static_cast<int>(ReduceOp::min) == RONDEL_MIN);
static_assert(static_cast<int>(ReduceOp::max) == RONDEL_MAX);
static_assert(static_cast<int>(ReduceOp::product) == RONDEL_PRODUCT);
static_assert(static_cast<int>(ReduceOp::bit_and) == RONDEL_BIT_AND);
static_assert(static_cast<int>(ReduceOp::bit_or) == RONDEL_BIT_OR);
static_assert(static_cast<int>(ReduceOp::bit_xor) == RONDEL_BIT_XOR);
static_assert(kReduceOpCount == RONDEL_BIT_XOR + 1);

rondel_status_t run_on(rondel_comm_t comm, const Arguments& arguments) noexcept {
  return answer_on(comm, [&arguments](rondel_comm& on) -> Status {
    const auto request = to_request(arguments, on.communicator->size());
    RONDEL_TRY(request);
    return on.communicator->run(*request);
  });
}

}  // namespace

Result<CollectiveRequest> to_request(const Arguments& arguments, Rank size) {
  const auto type = static_cast<std::size_t>(arguments.type);
  const auto op = static_cast<std::size_t>(arguments.op);
  if (type >= kDataTypeCount)
    return wrong(fmt::format("element type {} is none", arguments.type), "use a rondel_dtype_t");
  if (op >= kReduceOpCount)
    return wrong(fmt::format("operator {} is none", arguments.op), "use a rondel_op_t");
  CollectiveRequest request;
  request.kind = arguments.kind;
  request.input = arguments.input;
  request.output = arguments.output;
  request.count = arguments.count;
  request.type = static_cast<DataType>(type);
  request.op = static_cast<ReduceOp>(op);
  request.root = arguments.root;
  if (!arguments.has_counts) return request;
  const bool both = arguments.kind == CollectiveKind::all_to_all;
  if (arguments.counts == nullptr || (both && arguments.receive_counts == nullptr))
    return wrong(fmt::format("{} got no counts", name_of(arguments.kind)),
                 fmt::format("pass an array of {} counts, one for each rank", size));
  const auto entries = static_cast<std::size_t>(size);
  request.counts = {arguments.counts, entries};
  if (both) request.receive_counts = {arguments.receive_counts, entries};
  return request;
}

}  // namespace rondel::c

using rondel::CollectiveKind;
using rondel::c::run_on;

rondel_status_t rondel_allreduce(rondel_comm_t comm, const void* input, void* output, uint64_t count,
                                 rondel_dtype_t type, rondel_op_t op) {
  return run_on(comm, {.kind = CollectiveKind::all_reduce,
                       .input = input,
                       .output = output,
                       .count = count,
                       .type = type,
                       .op = op});
}

rondel_status_t rondel_reduce_scatter(rondel_comm_t comm, const void* input, void* output, uint64_t count,
                                      rondel_dtype_t type, rondel_op_t op) {
  return run_on(comm, {.kind = CollectiveKind::reduce_scatter,
                       .input = input,
                       .output = output,
                       .count = count,
                       .type = type,
                       .op = op});
}

rondel_status_t rondel_reduce_scatterv(rondel_comm_t comm, const void* input, void* output,
                                       const uint64_t* counts, rondel_dtype_t type, rondel_op_t op) {
  return run_on(comm, {.kind = CollectiveKind::reduce_scatter,
                       .input = input,
                       .output = output,
                       .type = type,
                       .op = op,
                       .has_counts = true,
                       .counts = counts});
}

rondel_status_t rondel_allgather(rondel_comm_t comm, const void* input, void* output, uint64_t count,
                                 rondel_dtype_t type) {
  return run_on(
      comm,
      {.kind = CollectiveKind::all_gather, .input = input, .output = output, .count = count, .type = type});
}

rondel_status_t rondel_allgatherv(rondel_comm_t comm, const void* input, void* output, const uint64_t* counts,
                                  rondel_dtype_t type) {
  return run_on(comm, {.kind = CollectiveKind::all_gather,
                       .input = input,
                       .output = output,
                       .type = type,
                       .has_counts = true,
                       .counts = counts});
}

rondel_status_t rondel_broadcast(rondel_comm_t comm, const void* input, void* output, uint64_t count,
                                 rondel_dtype_t type, int32_t root) {
  return run_on(comm, {.kind = CollectiveKind::broadcast,
                       .input = input,
                       .output = output,
                       .count = count,
                       .type = type,
                       .root = root});
}

rondel_status_t rondel_reduce(rondel_comm_t comm, const void* input, void* output, uint64_t count,
                              rondel_dtype_t type, rondel_op_t op, int32_t root) {
  return run_on(comm, {.kind = CollectiveKind::reduce,
                       .input = input,
                       .output = output,
                       .count = count,
                       .type = type,
                       .op = op,
                       .root = root});
}

rondel_status_t rondel_gather(rondel_comm_t comm, const void* input, void* output, uint64_t count,
                              rondel_dtype_t type, int32_t root) {
  return run_on(comm, {.kind = CollectiveKind::gather,
                       .input = input,
                       .output = output,
                       .count = count,
                       .type = type,
                       .root = root});
}

rondel_status_t rondel_gatherv(rondel_comm_t comm, const void* input, void* output, const uint64_t* counts,
                               rondel_dtype_t type, int32_t root) {
  return run_on(comm, {.kind = CollectiveKind::gather,
                       .input = input,
                       .output = output,
                       .type = type,
                       .root = root,
                       .has_counts = true,
                       .counts = counts});
}

rondel_status_t rondel_scatter(rondel_comm_t comm, const void* input, void* output, uint64_t count,
                               rondel_dtype_t type, int32_t root) {
  return run_on(comm, {.kind = CollectiveKind::scatter,
                       .input = input,
                       .output = output,
                       .count = count,
                       .type = type,
                       .root = root});
}

rondel_status_t rondel_scatterv(rondel_comm_t comm, const void* input, void* output, const uint64_t* counts,
                                rondel_dtype_t type, int32_t root) {
  return run_on(comm, {.kind = CollectiveKind::scatter,
                       .input = input,
                       .output = output,
                       .type = type,
                       .root = root,
                       .has_counts = true,
                       .counts = counts});
}

rondel_status_t rondel_alltoall(rondel_comm_t comm, const void* input, void* output, uint64_t count,
                                rondel_dtype_t type) {
  return run_on(
      comm,
      {.kind = CollectiveKind::all_to_all, .input = input, .output = output, .count = count, .type = type});
}

rondel_status_t rondel_alltoallv(rondel_comm_t comm, const void* input, const uint64_t* send_counts,
                                 void* output, const uint64_t* receive_counts, rondel_dtype_t type) {
  return run_on(comm, {.kind = CollectiveKind::all_to_all,
                       .input = input,
                       .output = output,
                       .type = type,
                       .has_counts = true,
                       .counts = send_counts,
                       .receive_counts = receive_counts});
}

rondel_status_t rondel_barrier(rondel_comm_t comm) { return run_on(comm, {.kind = CollectiveKind::barrier}); }

rondel_status_t rondel_send(rondel_comm_t comm, const void* input, uint64_t count, rondel_dtype_t type,
                            int32_t peer) {
  return run_on(comm,
                {.kind = CollectiveKind::send, .input = input, .count = count, .type = type, .root = peer});
}

rondel_status_t rondel_recv(rondel_comm_t comm, void* output, uint64_t count, rondel_dtype_t type,
                            int32_t peer) {
  return run_on(comm,
                {.kind = CollectiveKind::recv, .output = output, .count = count, .type = type, .root = peer});
}
