/* SPDX-License-Identifier: Apache-2.0 */
/* The words of Rondel's C interface: status codes, element types, operators, handles, options and errors.
 * Plain data, any thread. Include rondel.h, not this. */
#ifndef RONDEL_TYPES_H
#define RONDEL_TYPES_H

#include <stddef.h>
#include <stdint.h>

#define RONDEL_VERSION_MAJOR 0
#define RONDEL_VERSION_MINOR 1
#define RONDEL_VERSION_PATCH 0
/* Comparable: 0.1.0 is 100, 1.2.3 is 10203. */
#define RONDEL_VERSION (RONDEL_VERSION_MAJOR * 10000 + RONDEL_VERSION_MINOR * 100 + RONDEL_VERSION_PATCH)

#if defined(__GNUC__)
#define RONDEL_API __attribute__((visibility("default")))
#else
#define RONDEL_API
#endif

#ifdef __cplusplus
extern "C" {
#endif

/* What went wrong, and what a caller can do about it. */
typedef enum rondel_status {
  RONDEL_OK = 0,               /* nothing went wrong */
  RONDEL_INVALID_ARGUMENT = 1, /* the call itself is wrong; fix the argument, nothing was started */
  RONDEL_UNSUPPORTED = 2,      /* this build or machine cannot do it; the text says what can */
  RONDEL_UNAVAILABLE = 3,      /* a resource that should be there is not; retry may help */
  RONDEL_OUT_OF_RESOURCES = 4, /* memory, descriptors or another limit ran out; the text names the limit */
  RONDEL_TIMED_OUT = 5,        /* a deadline passed; the text says who was being waited for */
  RONDEL_PEER_LOST = 6,        /* another rank died or its connection broke; restart the job */
  RONDEL_PEER_LEFT = 7,        /* another rank left its communicator while it was still needed */
  RONDEL_MISMATCH = 8,         /* ranks called different operations or shapes; a bug in the calling program */
  RONDEL_REFUSED = 9,          /* authentication, version or settings differ; the text shows both sides */
  RONDEL_ABORTED = 10,         /* somebody called rondel_abort */
  RONDEL_IO_ERROR = 11,        /* the operating system failed a call; the text has its words */
  RONDEL_INTERNAL = 12         /* a bug in Rondel; please report it with the text */
} rondel_status_t;

/* Element types. float16 is IEEE binary16, bfloat16 the upper half of a float32; both are
 * added in float32 and rounded where they are sent on: once for each rank that a ring passes, so let what
 * must not round (a loss) be float32. RONDEL_BOOL is one byte, 0 or 1 (any non-zero input counts as 1,
 * outputs are 0 or 1). */
typedef enum rondel_dtype {
  RONDEL_INT8 = 0,
  RONDEL_UINT8 = 1,
  RONDEL_INT16 = 2,
  RONDEL_INT32 = 3,
  RONDEL_INT64 = 4,
  RONDEL_FLOAT16 = 5,
  RONDEL_BFLOAT16 = 6,
  RONDEL_FLOAT32 = 7,
  RONDEL_FLOAT64 = 8,
  RONDEL_BOOL = 9
} rondel_dtype_t;

/* Reduction operators. Integers wrap and are exact. Average divides by the number of ranks, integers towards
 * zero, and cannot overflow on the way for 16-bit floats. A NaN anywhere makes min and max NaN on every rank.
 * Bitwise operators take integers and bool; bool has no average; on bool, sum and max mean or, product and
 * min mean and. Any other pair is RONDEL_UNSUPPORTED before a rank waits. */
typedef enum rondel_op {
  RONDEL_SUM = 0,
  RONDEL_AVERAGE = 1,
  RONDEL_MIN = 2,
  RONDEL_MAX = 3,
  RONDEL_PRODUCT = 4,
  RONDEL_BIT_AND = 5,
  RONDEL_BIT_OR = 6,
  RONDEL_BIT_XOR = 7
} rondel_op_t;

/* A group of ranks; made by rondel_init and its kin, rondel_split and rondel_duplicate. */
typedef struct rondel_comm* rondel_comm_t;
/* One started operation; made by the rondel_i... functions, gone (NULL) once it ended. */
typedef struct rondel_request* rondel_request_t;
/* Memory a communicator was told about. */
typedef struct rondel_registration* rondel_registration_t;

/* How a job starts and behaves. Begin with RONDEL_OPTIONS_INIT, then set what matters; what stays 0 or NULL
 * is taken from the environment (the RONDEL_* variable named beside it), else its default. Strings are
 * copied. Must be equal on all ranks, except `address`. A struct of a newer library is accepted when the
 * fields unknown here are zero. */
typedef struct rondel_options {
  size_t struct_size;
  const char* name;      /* names the job in logs and store keys; RONDEL_JOB */
  const char* transport; /* RONDEL_TRANSPORT; "tcp", "shm", "shm+tcp", ... ; default: the fastest that all
                          * ranks share */
  const char* algorithm; /* RONDEL_ALGORITHM; "ring", "circulant", "one_shot", "recursive_doubling",
                          * "hierarchical" */
  /* Numeric address of this host on which rank 0 may listen when no launcher serves the job's meeting point;
   * the other ranks must be able to reach it. Default: 127.0.0.1 when all ranks are known to be on this host,
   * else an address of an interface that RONDEL_NET allows, else that of the default route. */
  const char* address;
  uint64_t segment_bytes;       /* RONDEL_SEGMENT_BYTES; pipelining unit */
  double timeout_seconds;       /* RONDEL_TIMEOUT_S; each operation; default 300 */
  double start_timeout_seconds; /* RONDEL_START_TIMEOUT_S; finding and connecting all ranks; default 60 */
} rondel_options_t;

#define RONDEL_OPTIONS_INIT \
  { sizeof(rondel_options_t), NULL, NULL, NULL, NULL, 0, 0.0, 0.0 }

/* Everything known about a failure, copied out, so that it stays as long as the caller keeps it. Fields that
 * do not apply are -1, 0 or empty; texts are NUL-terminated and cut at their capacity. */
typedef struct rondel_error {
  size_t struct_size;
  rondel_status_t code;
  int32_t rank;        /* the rank that reports, -1 unknown */
  int32_t peer;        /* the guilty or missing rank, -1 unknown */
  uint64_t bytes_done; /* payload bytes of the operation that had arrived on `rank` */
  char host[128];      /* host of `peer` */
  char operation[256]; /* "allreduce #17 of 1024 float32 sum" */
  char cause[1024];    /* one sentence: what happened, with the values that matter */
  char hint[512];      /* what the user can do */
  char text[2048];     /* all of the above on one line, for a log */
} rondel_error_t;

#define RONDEL_ERROR_INIT                                                   \
  {                                                                         \
    sizeof(rondel_error_t), RONDEL_OK, -1, -1, 0, {0}, {0}, {0}, {0}, { 0 } \
  }

#ifdef __cplusplus
}
#endif

#endif
