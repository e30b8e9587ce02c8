/* SPDX-License-Identifier: Apache-2.0 */
/* Rondel's C interface: collectives among the ranks of a job, by call order, on the caller's own thread. This
 * is the only stable ABI of the library: C11, also valid C++17, opaque handles, sized structs, a status from
 * every call.
 *
 *   rondel_comm_t comm;
 *   if (rondel_init(NULL, &comm) != RONDEL_OK) return 1;
 *   rondel_allreduce(comm, gradient, gradient, count, RONDEL_FLOAT32, RONDEL_AVERAGE);
 *   rondel_finalize(comm);
 *
 * Rules that hold for every function that takes a communicator, where its comment says nothing else:
 *  - Order: every rank of a communicator calls the same collectives in the same order. What differs
 * (operation, type, count, operator, root) is found and reported as RONDEL_MISMATCH on every rank.
 *  - Threads: one thread at a time per communicator, any thread; several communicators may be used at once
 * from several threads. A call that overlaps another one on the same communicator returns
 * RONDEL_INVALID_ARGUMENT. rondel_abort and rondel_failure may be called from any thread at any time.
 *  - Failure: RONDEL_INVALID_ARGUMENT and RONDEL_UNSUPPORTED start nothing and harm nothing. Any other
 * failure of an operation poisons the communicator: output buffers then hold unspecified values, and every
 * later call returns that same failure. rondel_last_error says who, where, what and why.
 *  - Deadlines: nothing waits for ever. An operation is given up at its timeout (RONDEL_TIMEOUT_S, 300 s by
 * default) and ends at most two seconds later, in which the ranks agree whom it waited for; a rank's death is
 * reported within seconds.
 *  - Fork: a child made by fork() must not touch communicators, requests or rondel_alloc memory of its
 * parent.
 *  - Signals: no function may be called from a signal handler; none installs one. SIGPIPE is never raised by
 * us.
 *  - Counts are 64-bit and in elements, sizes in bytes, times in seconds. Zero elements are fine, with NULL
 * buffers.
 *
 * The parts: types.h (codes, types, options, errors), job.h (start, end, split), collectives.h (blocking),
 * requests.h (non-blocking), memory.h (allocation, registration). */
#ifndef RONDEL_H
#define RONDEL_H

#include "rondel/types.h"

#include "rondel/collectives.h"
#include "rondel/job.h"
#include "rondel/memory.h"
#include "rondel/requests.h"

#endif
