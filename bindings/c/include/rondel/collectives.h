/* SPDX-License-Identifier: Apache-2.0 */
/* Collectives that block: each moves data on the calling thread and returns when this rank's part is done,
 * which does not say that the others are. Include rondel.h, not this; its head holds the rules on order,
 * threads and failure.
 *
 * Buffers are the caller's; Rondel reads `input` and writes `output` only until the call returns, and never
 * writes `input` unless it is `output` too. Buffers may overlap only in the ways called "in place". Any
 * alignment will do. `n` is the number of ranks, `r` this rank. Results are bit-identical on all ranks and
 * from run to run, with the same ranks, transport, counts and settings; another order of additions may change
 * the last bits of floats. Integers wrap, in an average too. A `counts` array has n entries and is copied.
 * Buffers without elements may be NULL.
 *
 * Every function can return RONDEL_INVALID_ARGUMENT (NULL, unknown type, operator or root),
 * RONDEL_UNSUPPORTED, RONDEL_MISMATCH, RONDEL_PEER_LOST, RONDEL_PEER_LEFT, RONDEL_TIMED_OUT, RONDEL_ABORTED,
 * RONDEL_OUT_OF_RESOURCES.
 *
 * Algorithms, chosen by size and measured cost (sums of floats of more than two ranks by size alone), or by
 * RONDEL_ALGORITHM: ring (Patarasuk and Yuan, "Bandwidth
 * optimal all-reduce algorithms for clusters of workstations", 2009), circulant graphs (Traeff, "Optimal,
 * non-pipelined reduce-scatter and allreduce algorithms", 2024), recursive doubling (Thakur, Rabenseifner and
 * Gropp, "Optimization of collective communication operations in MPICH", 2005), and one exchange of
 * everything among few ranks. Between hosts of several ranks a slice for each local rank; between ranks of
 * one machine loads and stores in rank order, unless RONDEL_ALGORITHM is set. */
#ifndef RONDEL_COLLECTIVES_H
#define RONDEL_COLLECTIVES_H

#include "rondel/types.h"

#ifdef __cplusplus
extern "C" {
#endif

/* output[count] = op over all ranks of input[count]. In place: output == input. */
RONDEL_API rondel_status_t rondel_allreduce(rondel_comm_t comm, const void* input, void* output,
                                            uint64_t count, rondel_dtype_t type, rondel_op_t op);

/* output[count] = part r of op over all ranks of input[n * count]. In place: output == input + r * count
 * elements. */
RONDEL_API rondel_status_t rondel_reduce_scatter(rondel_comm_t comm, const void* input, void* output,
                                                 uint64_t count, rondel_dtype_t type, rondel_op_t op);

/* output[counts[r]] = part r of op over all ranks of input[sum of counts]. `counts` is equal on all ranks. In
 * place: output == input + (counts[0] + ... + counts[r - 1]) elements. */
RONDEL_API rondel_status_t rondel_reduce_scatterv(rondel_comm_t comm, const void* input, void* output,
                                                  const uint64_t* counts, rondel_dtype_t type,
                                                  rondel_op_t op);

/* output[n * count] = input[count] of rank 0, of rank 1, ... In place: input == output + r * count elements.
 */
RONDEL_API rondel_status_t rondel_allgather(rondel_comm_t comm, const void* input, void* output,
                                            uint64_t count, rondel_dtype_t type);

/* output[sum of counts] = input[counts[0]] of rank 0, input[counts[1]] of rank 1, ... `counts` is equal on
 * all ranks. In place: input == output + (counts[0] + ... + counts[r - 1]) elements. */
RONDEL_API rondel_status_t rondel_allgatherv(rondel_comm_t comm, const void* input, void* output,
                                             const uint64_t* counts, rondel_dtype_t type);

/* output[count] = the root's input[count]; `input` is not looked at elsewhere and may be NULL there. In
 * place: output
 * == input. */
RONDEL_API rondel_status_t rondel_broadcast(rondel_comm_t comm, const void* input, void* output,
                                            uint64_t count, rondel_dtype_t type, int32_t root);

/* At the root: output[count] = op over all ranks of input[count]; `output` is not touched elsewhere and may
 * be NULL there. In place at the root: output == input. */
RONDEL_API rondel_status_t rondel_reduce(rondel_comm_t comm, const void* input, void* output, uint64_t count,
                                         rondel_dtype_t type, rondel_op_t op, int32_t root);

/* At the root: output[n * count] = input[count] of rank 0, of rank 1, ... Elsewhere `output` is not touched
 * and may be NULL. In place at the root: input == output + root * count elements. */
RONDEL_API rondel_status_t rondel_gather(rondel_comm_t comm, const void* input, void* output, uint64_t count,
                                         rondel_dtype_t type, int32_t root);

/* rondel_gather of input[counts[r]]; `counts` is equal on all ranks. */
RONDEL_API rondel_status_t rondel_gatherv(rondel_comm_t comm, const void* input, void* output,
                                          const uint64_t* counts, rondel_dtype_t type, int32_t root);

/* output[count] = part r of the root's input[n * count]. Elsewhere `input` is not looked at and may be NULL.
 * In place at the root: output == input + root * count elements. */
RONDEL_API rondel_status_t rondel_scatter(rondel_comm_t comm, const void* input, void* output, uint64_t count,
                                          rondel_dtype_t type, int32_t root);

/* rondel_scatter into output[counts[r]]; `counts` is equal on all ranks. */
RONDEL_API rondel_status_t rondel_scatterv(rondel_comm_t comm, const void* input, void* output,
                                           const uint64_t* counts, rondel_dtype_t type, int32_t root);

/* Part p of output[n * count] = part r of rank p's input[n * count]. Never in place. */
RONDEL_API rondel_status_t rondel_alltoall(rondel_comm_t comm, const void* input, void* output,
                                           uint64_t count, rondel_dtype_t type);

/* Sends send_counts[p] elements to each rank p, in order from `input`, and receives receive_counts[p] from
 * each, in order into `output`. receive_counts[p] here equals send_counts[r] at p. Never in place. */
RONDEL_API rondel_status_t rondel_alltoallv(rondel_comm_t comm, const void* input,
                                            const uint64_t* send_counts, void* output,
                                            const uint64_t* receive_counts, rondel_dtype_t type);

/* Returns when every rank has entered it. */
RONDEL_API rondel_status_t rondel_barrier(rondel_comm_t comm);

/* input[count] to rank `peer`, paired in order with that rank's receives from this one: equal counts and
 * types, no tags, beside the order of the collectives. Sending returns when `input` may be overwritten, which
 * can need the peer's receive; two ranks that send to one another use rondel_isend. A rank cannot send to
 * itself. */
RONDEL_API rondel_status_t rondel_send(rondel_comm_t comm, const void* input, uint64_t count,
                                       rondel_dtype_t type, int32_t peer);
RONDEL_API rondel_status_t rondel_recv(rondel_comm_t comm, void* output, uint64_t count, rondel_dtype_t type,
                                       int32_t peer);

#ifdef __cplusplus
}
#endif

#endif
