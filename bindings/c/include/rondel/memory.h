/* SPDX-License-Identifier: Apache-2.0 */
/* Memory that transports can use fastest, and telling a communicator about other memory. Every collective
 * takes any memory; this only makes it cheaper. Include rondel.h, not this. */
#ifndef RONDEL_MEMORY_H
#define RONDEL_MEMORY_H

#include "rondel/types.h"

#ifdef __cplusplus
extern "C" {
#endif

/* `bytes` of zeroed memory, aligned to 4096 bytes, backed by pages that are already there and that a local
 * rank can map: the fast path. Between ranks of one machine whose buffers are all of this kind, collectives
 * load and store in place instead of sending; a framework that takes its gradient storage from here (a pool,
 * a custom allocator) needs no other change. Where the kernel lets this process share no memory it is
 * ordinary memory, with one warning. Not tied to a communicator. `bytes` 0 gives NULL. Any thread; does not
 * wait for anybody. RONDEL_OUT_OF_RESOURCES names the limit. */
RONDEL_API rondel_status_t rondel_alloc(size_t bytes, void** memory);

/* Gives memory of rondel_alloc back, once no operation uses it. Any thread. RONDEL_INVALID_ARGUMENT for what
 * rondel_alloc did not give; RONDEL_OK for NULL. */
RONDEL_API rondel_status_t rondel_free(void* memory);

/* Tells `comm` about memory that many operations will use, so that a transport prepares it once and not at
 * each call: buffers that lie wholly within it use the preparation. The memory stays the caller's and must
 * outlive the registration, which ends with rondel_deregister or the communicator. Local, may take time in
 * proportion to `bytes`; over TCP it saves bookkeeping only. */
RONDEL_API rondel_status_t rondel_register(rondel_comm_t comm, void* memory, size_t bytes,
                                           rondel_registration_t* registration);
/* Once no operation uses the memory. RONDEL_OK for NULL. */
RONDEL_API rondel_status_t rondel_deregister(rondel_comm_t comm, rondel_registration_t registration);

#ifdef __cplusplus
}
#endif

#endif
