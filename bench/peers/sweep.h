/* SPDX-License-Identifier: Apache-2.0
 * The sweep that every peer program here runs, so that their numbers can be set side by side: sizes, warm-up
 * and iterations by size, and the one line per size that compare.py reads. C11 and C++20. It times nothing
 * itself: a program fills an array with the time of each iteration (the slowest rank's) and calls
 * sweep_report. */
#ifndef RONDEL_BENCH_PEERS_SWEEP_H
#define RONDEL_BENCH_PEERS_SWEEP_H

#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#define SWEEP_MOST_ITERATIONS 100000

typedef struct {
  size_t begin_bytes, end_bytes, factor;
  int iterations, warmup; /* -1: by size */
} SweepOptions;

/* "8", "64K", "128M", "1G" (binary); 0 when it is none of these. */
static inline size_t sweep_parse_size(const char* text) {
  char* end = NULL;
  const unsigned long long value = strtoull(text, &end, 10);
  int shift = 0;
  if (end == text || text[0] == '-') return 0;
  if (*end == 'k' || *end == 'K') shift = 10;
  if (*end == 'm' || *end == 'M') shift = 20;
  if (*end == 'g' || *end == 'G') shift = 30;
  if (end[shift != 0] != '\0' || value > (1ULL << 40)) return 0;
  return (size_t)(value << shift);
}

/* The rules of rondel-bench: about 256 MiB per size, at least 10 and at most 2,000 iterations. */
static inline int sweep_iterations(const SweepOptions* options, size_t bytes) {
  if (options->iterations > 0) return options->iterations;
  const size_t wanted = ((size_t)256 << 20) / (bytes > 0 ? bytes : 1);
  return wanted < 10 ? 10 : wanted > 2000 ? 2000 : (int)wanted;
}

static inline int sweep_warmup(const SweepOptions* options, size_t bytes) {
  if (options->warmup >= 0) return options->warmup;
  const int wanted = sweep_iterations(options, bytes) / 5;
  return wanted < 3 ? 3 : wanted > 100 ? 100 : wanted;
}

/* Takes -b -e -f -n -w; returns 0 when the flag is not one of them, else 1; ends the program on a bad value.
 */
static inline int sweep_take_flag(SweepOptions* options, const char* flag, const char* value) {
  if (flag[0] != '-' || strchr("befnw", flag[1]) == NULL || flag[1] == '\0' || flag[2] != '\0') return 0;
  const size_t number = value != NULL ? sweep_parse_size(value) : 0;
  const int zero_is_fine = flag[1] == 'w' && value != NULL && strcmp(value, "0") == 0;
  if ((number == 0 && !zero_is_fine) ||
      ((flag[1] == 'n' || flag[1] == 'w') && number > SWEEP_MOST_ITERATIONS) ||
      (flag[1] == 'f' && number < 2)) {
    fprintf(stderr, "%s needs a number such as 8 or 64M, found \"%s\"\n", flag,
            value != NULL ? value : "nothing");
    exit(2);
  }
  if (flag[1] == 'b') options->begin_bytes = number;
  if (flag[1] == 'e') options->end_bytes = number;
  if (flag[1] == 'f') options->factor = number;
  if (flag[1] == 'n') options->iterations = (int)number;
  if (flag[1] == 'w') options->warmup = (int)number;
  return 1;
}

static inline SweepOptions sweep_defaults(void) {
  const SweepOptions options = {4, (size_t)64 << 20, 4, -1, -1};
  return options;
}

static inline double sweep_now_us(void) {
  struct timespec now;
  clock_gettime(CLOCK_MONOTONIC, &now);
  return (double)now.tv_sec * 1e6 + (double)now.tv_nsec * 1e-3;
}

static inline int sweep_compare_times(const void* a, const void* b) {
  const double x = *(const double*)a, y = *(const double*)b;
  return (x > y) - (x < y);
}

static inline void sweep_print_head(const char* peer, int ranks, const char* details) {
  printf("# peer %s ranks %d %s\n# bytes iterations median_us p95_us min_us\n", peer, ranks, details);
}

/* Sorts `times_us`, which holds for each iteration the time of its slowest rank. */
static inline void sweep_report(size_t bytes, double* times_us, int iterations) {
  qsort(times_us, (size_t)iterations, sizeof *times_us, sweep_compare_times);
  const int middle = iterations / 2;
  const double median = iterations % 2 ? times_us[middle] : (times_us[middle - 1] + times_us[middle]) / 2;
  const int at_95 = (iterations * 95 + 99) / 100 - 1;
  printf("%zu %d %.3f %.3f %.3f\n", bytes, iterations, median, times_us[at_95], times_us[0]);
  fflush(stdout);
}

#endif
