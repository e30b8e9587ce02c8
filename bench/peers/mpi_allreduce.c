/* SPDX-License-Identifier: Apache-2.0
 * Times MPI_Allreduce (float32, sum, in place; -o for out of place) over the sweep that sweep.h defines, for
 * whatever MPI it is built with. The time of an iteration is the slowest rank's; results are checked once for
 * each size. */
#include <mpi.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "bench/peers/sweep.h"

typedef struct {
  int rank, ranks, out_of_place;
  float *send, *receive;
} Job;

static void all_reduce(const Job* job, int count) {
  const void* from = job->out_of_place ? job->send : MPI_IN_PLACE;
  MPI_Allreduce(from, job->receive, count, MPI_FLOAT, MPI_SUM, MPI_COMM_WORLD);
}

/* Small integers that depend on position and rank: float32 adds them exactly. */
static void fill(const Job* job, int count) {
  float* const into = job->out_of_place ? job->send : job->receive;
  for (int i = 0; i < count; ++i) into[i] = (float)(1 + (i % 1021 + job->rank * 31) % 97);
}

static int count_wrong(const Job* job, int count) {
  int wrong = 0;
  for (int i = 0; i < count; ++i) {
    float expected = 0;
    for (int rank = 0; rank < job->ranks; ++rank) expected += (float)(1 + (i % 1021 + rank * 31) % 97);
    wrong += job->receive[i] != expected;
  }
  return wrong;
}

static int run_size(const Job* job, const SweepOptions* options, size_t bytes, double* times_us,
                    double* slowest_us) {
  const int count = (int)(bytes / sizeof(float));
  const int iterations = sweep_iterations(options, bytes);
  fill(job, count);
  all_reduce(job, count);
  int wrong = count_wrong(job, count);
  MPI_Allreduce(MPI_IN_PLACE, &wrong, 1, MPI_INT, MPI_SUM, MPI_COMM_WORLD);
  if (wrong != 0) return wrong;
  for (int i = sweep_warmup(options, bytes); i > 0; --i) all_reduce(job, count);
  MPI_Barrier(MPI_COMM_WORLD);
  for (int i = 0; i < iterations; ++i) {
    const double start_us = sweep_now_us();
    all_reduce(job, count);
    times_us[i] = sweep_now_us() - start_us;
  }
  MPI_Reduce(times_us, slowest_us, iterations, MPI_DOUBLE, MPI_MAX, 0, MPI_COMM_WORLD);
  if (job->rank == 0) sweep_report(bytes, slowest_us, iterations);
  return 0;
}

static SweepOptions parse(int argc, char** argv, Job* job) {
  SweepOptions options = sweep_defaults();
  for (int i = 1; i < argc; ++i) {
    if (strcmp(argv[i], "-o") == 0) {
      job->out_of_place = 1;
    } else if (sweep_take_flag(&options, argv[i], i + 1 < argc ? argv[i + 1] : NULL)) {
      ++i;
    } else {
      if (job->rank == 0)
        fprintf(stderr, "usage: mpi_allreduce [-b 4] [-e 64M] [-f 4] [-n iterations] [-w warm-up] [-o]\n");
      MPI_Finalize();
      exit(2);
    }
  }
  return options;
}

int main(int argc, char** argv) {
  Job job = {0, 1, 0, NULL, NULL};
  MPI_Init(&argc, &argv);
  MPI_Comm_rank(MPI_COMM_WORLD, &job.rank);
  MPI_Comm_size(MPI_COMM_WORLD, &job.ranks);
  const SweepOptions options = parse(argc, argv, &job);
  job.send = calloc(1, options.end_bytes);
  job.receive = calloc(1, options.end_bytes);
  double* const times_us = calloc(2 * SWEEP_MOST_ITERATIONS, sizeof *times_us);
  if (job.send == NULL || job.receive == NULL || times_us == NULL) MPI_Abort(MPI_COMM_WORLD, 1);
  char version[MPI_MAX_LIBRARY_VERSION_STRING];
  int length = 0;
  MPI_Get_library_version(version, &length);
  version[strcspn(version, ",\n")] = '\0';
  for (char* c = version; *c != '\0'; ++c)
    if (*c == '\t') *c = ' ';
  if (job.rank == 0) sweep_print_head("mpi", job.ranks, version);
  int wrong = 0;
  for (size_t bytes = options.begin_bytes; bytes <= options.end_bytes && wrong == 0; bytes *= options.factor)
    wrong = run_size(&job, &options, bytes, times_us, times_us + SWEEP_MOST_ITERATIONS);
  if (wrong != 0 && job.rank == 0) fprintf(stderr, "mpi_allreduce: %d elements are wrong\n", wrong);
  free(job.send);
  free(job.receive);
  free(times_us);
  MPI_Finalize();
  return wrong != 0;
}
