/* SPDX-License-Identifier: Apache-2.0 */
/* Collectives that do not block, and how to finish them. Include rondel.h, not this; its head holds the rules
 * on order, threads and failure, collectives.h what each operation does.
 *
 * rondel_i... starts and returns without waiting for peers. On RONDEL_OK `request` is set, and the buffers
 * are on loan: `input` may not be written, `output` neither read nor written, until rondel_test, rondel_wait
 * or rondel_wait_any has said that the operation ended. On any other status nothing was started and `request`
 * is NULL. Collectives of one communicator run one after another in the order of their starts, sends and
 * receives beside them.
 *
 * There is no hidden thread: data moves inside rondel_test, rondel_wait, rondel_wait_any, rondel_progress and
 * blocking collectives of that communicator. To cancel, abort the communicator. */
#ifndef RONDEL_REQUESTS_H
#define RONDEL_REQUESTS_H

#include "rondel/types.h"

#ifdef __cplusplus
extern "C" {
#endif

RONDEL_API rondel_status_t rondel_iallreduce(rondel_comm_t comm, const void* input, void* output,
                                             uint64_t count, rondel_dtype_t type, rondel_op_t op,
                                             rondel_request_t* request);
RONDEL_API rondel_status_t rondel_ireduce_scatter(rondel_comm_t comm, const void* input, void* output,
                                                  uint64_t count, rondel_dtype_t type, rondel_op_t op,
                                                  rondel_request_t* request);
RONDEL_API rondel_status_t rondel_ireduce_scatterv(rondel_comm_t comm, const void* input, void* output,
                                                   const uint64_t* counts, rondel_dtype_t type,
                                                   rondel_op_t op, rondel_request_t* request);
RONDEL_API rondel_status_t rondel_iallgather(rondel_comm_t comm, const void* input, void* output,
                                             uint64_t count, rondel_dtype_t type, rondel_request_t* request);
RONDEL_API rondel_status_t rondel_iallgatherv(rondel_comm_t comm, const void* input, void* output,
                                              const uint64_t* counts, rondel_dtype_t type,
                                              rondel_request_t* request);
RONDEL_API rondel_status_t rondel_ibroadcast(rondel_comm_t comm, const void* input, void* output,
                                             uint64_t count, rondel_dtype_t type, int32_t root,
                                             rondel_request_t* request);
RONDEL_API rondel_status_t rondel_ireduce(rondel_comm_t comm, const void* input, void* output, uint64_t count,
                                          rondel_dtype_t type, rondel_op_t op, int32_t root,
                                          rondel_request_t* request);
RONDEL_API rondel_status_t rondel_igather(rondel_comm_t comm, const void* input, void* output, uint64_t count,
                                          rondel_dtype_t type, int32_t root, rondel_request_t* request);
RONDEL_API rondel_status_t rondel_igatherv(rondel_comm_t comm, const void* input, void* output,
                                           const uint64_t* counts, rondel_dtype_t type, int32_t root,
                                           rondel_request_t* request);
RONDEL_API rondel_status_t rondel_iscatter(rondel_comm_t comm, const void* input, void* output,
                                           uint64_t count, rondel_dtype_t type, int32_t root,
                                           rondel_request_t* request);
RONDEL_API rondel_status_t rondel_iscatterv(rondel_comm_t comm, const void* input, void* output,
                                            const uint64_t* counts, rondel_dtype_t type, int32_t root,
                                            rondel_request_t* request);
RONDEL_API rondel_status_t rondel_ialltoall(rondel_comm_t comm, const void* input, void* output,
                                            uint64_t count, rondel_dtype_t type, rondel_request_t* request);
RONDEL_API rondel_status_t rondel_ialltoallv(rondel_comm_t comm, const void* input,
                                             const uint64_t* send_counts, void* output,
                                             const uint64_t* receive_counts, rondel_dtype_t type,
                                             rondel_request_t* request);
RONDEL_API rondel_status_t rondel_ibarrier(rondel_comm_t comm, rondel_request_t* request);
RONDEL_API rondel_status_t rondel_isend(rondel_comm_t comm, const void* input, uint64_t count,
                                        rondel_dtype_t type, int32_t peer, rondel_request_t* request);
RONDEL_API rondel_status_t rondel_irecv(rondel_comm_t comm, void* output, uint64_t count, rondel_dtype_t type,
                                        int32_t peer, rondel_request_t* request);

/* Moves what can be moved without waiting, then sets `done` to 1 when the operation ended (its status is
 * returned, the request freed and set to NULL) or to 0 (RONDEL_OK). A NULL request is done. */
RONDEL_API rondel_status_t rondel_test(rondel_request_t* request, int* done);

/* Blocks until the operation ended; frees the request, sets it to NULL and returns the operation's status.
 * With `timeout_seconds` >= 0 it may give up earlier: RONDEL_TIMED_OUT with the request still set; the
 * operation goes on, and the buffers stay on loan. A negative one leaves only the operation's own timeout,
 * which poisons the communicator. A NULL request is done. */
RONDEL_API rondel_status_t rondel_wait(rondel_request_t* request, double timeout_seconds);

/* Blocks until one of `count` requests ended, of one or several communicators of this thread; NULL ones are
 * skipped. Its place goes to `index`; the rest is as with rondel_wait. RONDEL_INVALID_ARGUMENT when all are
 * NULL. The lowest place wins among several that ended. */
RONDEL_API rondel_status_t rondel_wait_any(rondel_request_t* requests, size_t count, double timeout_seconds,
                                           size_t* index);

/* Moves whatever was started on this communicator; when nothing can be moved, waits up to `timeout_seconds`
 * (0: not at all) for the fabric. Returns the failure that poisoned it, if any. */
RONDEL_API rondel_status_t rondel_progress(rondel_comm_t comm, double timeout_seconds);

/* A descriptor for poll, epoll and event loops: readable means "call rondel_test or rondel_progress now".
 * Call this function before each wait: it moves what can be moved, arms the descriptor anew, and makes it
 * readable at once when a request has ended already. It also turns readable when an operation's timeout
 * passes, and every half second while operations are open, so that failures elsewhere are seen. Owned by the
 * communicator: never read from it, never close it. */
RONDEL_API rondel_status_t rondel_event_descriptor(rondel_comm_t comm, int* descriptor);

#ifdef __cplusplus
}
#endif

#endif
