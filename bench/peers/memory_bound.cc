// SPDX-License-Identifier: Apache-2.0
// The bound that memory sets for an all-reduce in place between processes of one machine: together they read
// each rank's vector once and write it once. Each process takes its share of the elements, adds all vectors
// block by block and stores the sums to all of them; a barrier before and none inside. No headers, no checks,
// no way to fail. Prints one line per size as sweep.h defines; the time of an iteration is the slowest
// process's.
#include <sched.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <cerrno>
#include <cstddef>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <new>
#include <string>
#include <utility>
#include <vector>

#include "bench/peers/sweep.h"
#include "lib/shared_memory.h"

namespace {

constexpr std::size_t kBlock = 2048;  // floats, which stay in the first cache
constexpr int kMostRanks = 64;
constexpr int kLooksBeforeYield = 64;

#if defined(__x86_64__)
#define FOR_EACH_PROCESSOR __attribute__((target_clones("avx512f", "avx2", "default")))
#else
#define FOR_EACH_PROCESSOR
#endif

[[noreturn]] void die(const char* what) {
  std::fprintf(stderr, "memory_bound: %s: %s\n", what, std::strerror(errno));
  std::exit(1);
}

[[noreturn]] void usage(int code) {
  std::fputs("usage: memory_bound [-np 2] [-b 4] [-e 64M] [-f 4] [-n iterations] [-w warm-up]\n",
             code == 0 ? stdout : stderr);
  std::exit(code);
}

// As Rondel's own: present, and of huge pages where the kernel makes them. Kept until the end.
void* shared(std::size_t bytes) {
  auto memory = rondel::SharedMemory::create(bytes);
  if (!memory.ok()) {
    std::fprintf(stderr, "memory_bound: %s\n", memory.status().text().c_str());
    std::exit(1);
  }
  static std::vector<rondel::SharedMemory> all;
  return all.emplace_back(std::move(memory).value()).data();
}

struct Barrier {
  std::atomic<unsigned> arrived{0};

  void wait(unsigned ranks) {
    const unsigned target = arrived.fetch_add(1) / ranks * ranks + ranks;
    for (int looks = 0; static_cast<int>(arrived.load() - target) < 0; ++looks)
      if (looks % kLooksBeforeYield == kLooksBeforeYield - 1) sched_yield();
  }
};

FOR_EACH_PROCESSOR void add_two(float* __restrict a, float* __restrict b, std::size_t count) {
  for (std::size_t i = 0; i < count; ++i) a[i] = b[i] = a[i] + b[i];
}

FOR_EACH_PROCESSOR void add_four(float* __restrict a, float* __restrict b, float* __restrict c,
                                 float* __restrict d, std::size_t count) {
  for (std::size_t i = 0; i < count; ++i) a[i] = b[i] = c[i] = d[i] = a[i] + b[i] + c[i] + d[i];
}

FOR_EACH_PROCESSOR void add(float* __restrict sum, const float* __restrict other, std::size_t count) {
  for (std::size_t i = 0; i < count; ++i) sum[i] += other[i];
}

struct World {
  int ranks = 2, rank = 0;
  Barrier* barrier = nullptr;
  std::vector<float*> vectors;
  double* times = nullptr;

  void meet() const { barrier->wait(static_cast<unsigned>(ranks)); }

  void run(std::size_t count) const {
    meet();
    const std::size_t share = (count + static_cast<std::size_t>(ranks) - 1) / static_cast<std::size_t>(ranks);
    const std::size_t begin = std::min(count, share * static_cast<std::size_t>(rank));
    const std::size_t end = std::min(count, begin + share);
    for (std::size_t at = begin; at < end; at += kBlock) reduce(at, std::min(kBlock, end - at));
  }

  void reduce(std::size_t at, std::size_t count) const {
    if (ranks == 2) return add_two(vectors[0] + at, vectors[1] + at, count);
    if (ranks == 4)
      return add_four(vectors[0] + at, vectors[1] + at, vectors[2] + at, vectors[3] + at, count);
    alignas(64) float sum[kBlock];
    std::memcpy(sum, vectors[0] + at, count * sizeof(float));
    for (int other = 1; other < ranks; ++other)
      add(sum, vectors[static_cast<std::size_t>(other)] + at, count);
    for (float* vector : vectors) std::memcpy(vector + at, sum, count * sizeof(float));
  }

  bool is_right(std::size_t count) const {
    float* const own = vectors[static_cast<std::size_t>(rank)];
    for (std::size_t i = 0; i < count; ++i) own[i] = static_cast<float>(i % 1000) + static_cast<float>(rank);
    run(count);
    meet();
    std::size_t wrong = 0;
    const auto of_ranks = static_cast<float>(ranks * (ranks - 1) / 2);
    for (std::size_t i = 0; i < count; ++i)
      if (own[i] != static_cast<float>(i % 1000) * static_cast<float>(ranks) + of_ranks) ++wrong;
    meet();
    std::fill(own, own + count, 0.0F);
    if (wrong > 0) std::fprintf(stderr, "memory_bound: %zu of %zu elements are wrong\n", wrong, count);
    return wrong == 0;
  }
};

int sweep(const World& world, const SweepOptions& options) {
  if (world.rank == 0) sweep_print_head("bound", world.ranks, "memory");
  double* const mine = world.times + world.rank * SWEEP_MOST_ITERATIONS;
  for (std::size_t bytes = options.begin_bytes; bytes <= options.end_bytes; bytes *= options.factor) {
    const std::size_t count = bytes / sizeof(float);
    if (!world.is_right(count)) return 1;
    const int iterations = sweep_iterations(&options, bytes);
    for (int i = sweep_warmup(&options, bytes); i > 0; --i) world.run(count);
    for (int i = 0; i < iterations; ++i) {
      const double start = sweep_now_us();
      world.run(count);
      mine[i] = sweep_now_us() - start;
    }
    world.meet();
    if (world.rank == 0) {
      for (int i = 0; i < iterations; ++i)
        for (int other = 1; other < world.ranks; ++other)
          mine[i] = std::max(mine[i], world.times[other * SWEEP_MOST_ITERATIONS + i]);
      sweep_report(bytes, mine, iterations);
    }
    world.meet();
  }
  return 0;
}

}  // namespace

int main(int argc, char** argv) {
  SweepOptions options = sweep_defaults();
  World world;
  for (int i = 1; i < argc; i += 2) {
    const std::string flag = argv[i];
    if (flag == "-h" || flag == "--help") usage(0);
    if (i + 1 == argc) usage(2);
    if (flag == "-np")
      world.ranks = std::atoi(argv[i + 1]);
    else if (sweep_take_flag(&options, flag.c_str(), argv[i + 1]) == 0)
      usage(2);
  }
  if (world.ranks < 2 || world.ranks > kMostRanks) usage(2);
  world.barrier = new (shared(sizeof(Barrier))) Barrier;
  world.times = static_cast<double*>(
      shared(static_cast<std::size_t>(world.ranks) * SWEEP_MOST_ITERATIONS * sizeof(double)));
  for (int rank = 0; rank < world.ranks; ++rank)
    world.vectors.push_back(static_cast<float*>(shared(options.end_bytes)));
  for (int rank = 1; rank < world.ranks && world.rank == 0; ++rank) {
    const pid_t child = fork();
    if (child < 0) die("fork");
    if (child == 0) world.rank = rank;
  }
  int code = sweep(world, options);
  if (world.rank != 0) return code;
  for (int child = 1; child < world.ranks; ++child) {
    int status = 0;
    wait(&status);
    if (status != 0) code = 1;
  }
  return code;
}
