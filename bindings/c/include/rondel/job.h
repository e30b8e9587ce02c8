/* SPDX-License-Identifier: Apache-2.0 */
/* Start and end of a job, its communicators, and what can be asked of them. Include rondel.h, not this. */
#ifndef RONDEL_JOB_H
#define RONDEL_JOB_H

#include "rondel/types.h"

#ifdef __cplusplus
extern "C" {
#endif

/* RONDEL_VERSION of the library that is loaded, and the same as "0.1.0". Never block; any thread. */
RONDEL_API int rondel_version(void);
RONDEL_API const char* rondel_version_string(void);

/* JSON object: "version", "protocol", "reduce_kernels" and "transports", a list of {"name", "built",
 * "usable", "why_not"}. Looks at the machine each time, without waiting for anybody; any thread. The text
 * stays valid until this thread calls the function again; NULL when memory ran out. */
RONDEL_API const char* rondel_build_info(void);

/* "peer lost" for RONDEL_PEER_LOST; "unknown code" for what is none. Static text; any thread. */
RONDEL_API const char* rondel_status_string(rondel_status_t code);

/* Starts from the environment and gives the communicator of all ranks. Collective; blocks until all ranks
 * have come, at most the start timeout, whose error names who is missing. Any thread. `options` may be NULL.
 *  - RONDEL_RANK, RONDEL_SIZE, RONDEL_STORE (rondelrun sets them): tcp://host:port is the launcher's meeting
 * point, whose secret comes by RONDEL_SECRET_FD or RONDEL_SECRET_FILE; file:///directory is a directory that
 * all ranks see; it is made if it is missing, and refused when others may write to it.
 *  - RANK, WORLD_SIZE, MASTER_ADDR, MASTER_PORT (torchrun sets them) without RONDEL_STORE: on one host the
 * ranks meet through a private directory of this user (in $XDG_RUNTIME_DIR, else ~/.cache); on several hosts
 * rank 0 listens at MASTER_ADDR on MASTER_PORT + 1, and every rank needs the same RONDEL_SECRET_FILE (32
 * random bytes, mode 0600): without it the start is RONDEL_REFUSED.
 *  - none of these, but started by mpiexec.hydra, Flux or srun --mpi=pmi2 (PMI_FD, PMI_RANK, PMI_SIZE): the
 * ranks meet through that launcher. Not for programs that also call MPI in this process: they hand a unique
 * id around.
 *  - likewise by srun (SLURM_STEP_ID, SLURM_PROCID, SLURM_STEP_NUM_TASKS) or Open MPI's mpirun
 * (OMPI_COMM_WORLD_RANK, ..._SIZE): on one host they meet as torchrun's do, on several through
 * ~/.cache/rondel, which must then be one directory on all hosts. MASTER_ADDR is of use to them only with a
 * secret.
 *  - where several of these say different things, the launcher nearest to this process counts;
 * RONDEL_REFUSED when that can not be told. RONDEL_RANK and RONDEL_SIZE set by hand always count.
 *  - none of them: one rank, which needs no socket.
 * May be called again after the communicator was finalized, by all ranks the same number of times. */
RONDEL_API rondel_status_t rondel_init(const rondel_options_t* options, rondel_comm_t* comm);

/* A job's address and secret in one opaque value. It is a password: hand it to the other ranks by a safe way.
 */
typedef struct rondel_unique_id {
  unsigned char bytes[128];
} rondel_unique_id_t;

/* Opens a meeting point in this process, which must become rank 0, and describes it in `id`. Does not wait
 * for anybody; any thread. The meeting point closes with rank 0's last communicator, or at exit when none was
 * made. */
RONDEL_API rondel_status_t rondel_get_unique_id(const rondel_options_t* options, rondel_unique_id_t* id);

/* Starts rank `rank` of `size` of the job of `id`. Collective and blocking like rondel_init. One use per id.
 * Ranks may be processes, or threads of one process. */
RONDEL_API rondel_status_t rondel_init_unique_id(const rondel_unique_id_t* id, int32_t rank, int32_t size,
                                                 const rondel_options_t* options, rondel_comm_t* comm);

/* A key-value store of the caller's (torch's Store, Ray, Redis, ...), used only inside rondel_init_store and
 * only on its calling thread: rank 0 sets one key, the others get it. The value (under 256 bytes) holds the
 * job's secret, so that the store must be as private as the job. Callbacks return a status; any failure but
 * RONDEL_TIMED_OUT ends the start with it. Begin with RONDEL_STORE_INIT. */
typedef struct rondel_store {
  size_t struct_size;
  void* user; /* handed to the callbacks, never touched */
  /* Sets `key` (NUL-terminated, printable, with '/' in it, under 256 bytes), replacing what was there. */
  rondel_status_t (*set)(void* user, const char* key, const void* value, size_t bytes);
  /* Waits up to `timeout_seconds` until `key` is set, then copies its value to `value` and its length to
   * `bytes`. RONDEL_TIMED_OUT when it is not set in time, RONDEL_OUT_OF_RESOURCES when it is longer than
   * `capacity`. */
  rondel_status_t (*get)(void* user, const char* key, void* value, size_t capacity, size_t* bytes,
                         double timeout_seconds);
} rondel_store_t;

#define RONDEL_STORE_INIT \
  { sizeof(rondel_store_t), NULL, NULL, NULL }

/* Starts rank `rank` of `size` through the caller's store. Collective and blocking like rondel_init. The key
 * is made of `options->name` and how often this rank has started under that name, so that one store serves
 * many jobs. */
RONDEL_API rondel_status_t rondel_init_store(const rondel_store_t* store, int32_t rank, int32_t size,
                                             const rondel_options_t* options, rondel_comm_t* comm);

/* Leaves a communicator together: collective, blocks until every rank has called it (at most the operation
 * timeout), then frees the handle, whatever it returns, unless another thread is inside a call on it.
 * Requests still open end as RONDEL_ABORTED and their handles stay the caller's to hand to rondel_wait.
 * RONDEL_OK for a NULL handle. Where no launcher serves the meeting point, rank 0 waits for the others to
 * leave the job too. */
RONDEL_API rondel_status_t rondel_finalize(rondel_comm_t comm);

/* Leaves at once: frees the handle and waits for nobody; peers that still need this rank get
 * RONDEL_PEER_LEFT. Rank 0's meeting point is the exception: where no launcher serves it, the last
 * communicator of rank 0 keeps it up until the others have left or died, at most the operation timeout.
 * RONDEL_OK for a NULL handle. */
RONDEL_API rondel_status_t rondel_destroy(rondel_comm_t comm);

/* Ends every operation of this communicator with RONDEL_ABORTED on every rank, and poisons it. Any thread,
 * also while another one is inside a collective; returns within a second, whatever the peers do. The way to
 * cancel. `why` may be NULL; it is quoted in every rank's error. The handle must still be freed. */
RONDEL_API rondel_status_t rondel_abort(rondel_comm_t comm, const char* why);

/* This rank's number and how many there are, -1 for a NULL handle. Local: on this host, by the launcher's
 * word, else by equal host names. Never block; any thread. */
RONDEL_API int32_t rondel_rank(rondel_comm_t comm);
RONDEL_API int32_t rondel_size(rondel_comm_t comm);
RONDEL_API int32_t rondel_local_rank(rondel_comm_t comm);
RONDEL_API int32_t rondel_local_size(rondel_comm_t comm);
/* The transport in use ("tcp") and the host of a rank, valid as long as the communicator; "" when there is
 * none. */
RONDEL_API const char* rondel_transport(rondel_comm_t comm);
RONDEL_API const char* rondel_host(rondel_comm_t comm, int32_t rank);

/* Payload bytes this rank has sent to and received from other ranks on this communicator since it was made;
 * NULL: not asked for. */
RONDEL_API rondel_status_t rondel_byte_counts(rondel_comm_t comm, uint64_t* sent, uint64_t* received);

/* One thing that the transport counts of its own work. */
typedef struct rondel_counter {
  const char* name; /* "doorbells"; a literal of the library */
  uint64_t value;
} rondel_counter_t;

/* What the transport did to move this communicator's bytes, since it was made: copies up to `room` counters
 * to `counters` and stores how many there are in `count`. Which there are depends on the transport, and it
 * may count nothing; for a transport they are the same, in the same order, at every call. rondel-bench shows
 * them. */
RONDEL_API rondel_status_t rondel_counters(rondel_comm_t comm, rondel_counter_t* counters, size_t room,
                                           size_t* count);

/* New communicators from old: ranks with equal `colour` form one, ordered by (key, old rank); a negative
 * colour gets NULL. Collective, blocking. The new one has its own order, requests and failures, and is freed
 * on its own. */
RONDEL_API rondel_status_t rondel_split(rondel_comm_t comm, int32_t colour, int32_t key, rondel_comm_t* part);
RONDEL_API rondel_status_t rondel_duplicate(rondel_comm_t comm, rondel_comm_t* copy);

/* The last failed call on `comm`, or, with NULL, the last failed call of this thread (the way to learn why
 * rondel_init failed); code RONDEL_OK when nothing has failed. Begin with RONDEL_ERROR_INIT. Never blocks. */
RONDEL_API rondel_status_t rondel_last_error(rondel_comm_t comm, rondel_error_t* error);

/* The failure that poisoned `comm`, code RONDEL_OK while it is healthy. Never blocks; any thread, at any
 * time. */
RONDEL_API rondel_status_t rondel_failure(rondel_comm_t comm, rondel_error_t* error);

#ifdef __cplusplus
}
#endif

#endif
