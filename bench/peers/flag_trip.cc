// SPDX-License-Identifier: Apache-2.0
// How far apart two processors are: prints the nanoseconds that two processes need until each has seen the
// other's flag, as the median over many rounds of such exchanges. A virtual machine's processors may be moved
// between two runs, onto one cache or onto two; this tells which it is.
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <atomic>
#include <cstdint>
#include <cstdio>
#include <new>

#include "bench/peers/sweep.h"
#include "lib/shared_memory.h"

namespace {

constexpr std::size_t kRounds = 101;
constexpr std::uint64_t kExchanges = 500;
constexpr double kLongestUs =
    2e6;  // where there is one processor, or none to spare, an exchange takes a time slice

struct Flags {
  struct alignas(64) Flag {
    std::atomic<std::uint64_t> count{0};
  };
  std::array<Flag, 2> of;
};

bool exchange(Flags& flags, std::size_t side, std::uint64_t first, double until) {
  for (std::uint64_t i = first; i < first + kExchanges; ++i) {
    flags.of[side].count.store(i, std::memory_order_release);  // pairs with the loads of the other side
    for (std::uint64_t looks = 1; flags.of[1 - side].count.load(std::memory_order_acquire) < i; ++looks)
      if (looks % 4096 == 0 && sweep_now_us() > until) return false;
  }
  return true;
}

}  // namespace

int main() {
  auto memory = rondel::SharedMemory::create(sizeof(Flags));
  if (!memory.ok()) {
    std::fprintf(stderr, "flag_trip: %s\n", memory.status().text().c_str());
    return 1;
  }
  Flags& flags = *new (memory->data()) Flags;
  const double until = sweep_now_us() + kLongestUs;
  const pid_t child = fork();
  if (child < 0) {
    std::perror("flag_trip: fork");
    return 1;
  }
  const std::size_t side = child == 0 ? 1 : 0;
  std::array<double, kRounds> ns{};
  for (std::size_t round = 0; round < kRounds; ++round) {
    const double start = sweep_now_us();
    if (!exchange(flags, side, 1 + round * kExchanges, until)) {
      if (side == 0) std::fputs("flag_trip: two processes do not run at the same time here\n", stderr);
      if (side == 0) wait(nullptr);
      return 1;
    }
    ns[round] = (sweep_now_us() - start) * 1000 / static_cast<double>(kExchanges);
  }
  if (side != 0) return 0;
  wait(nullptr);
  std::sort(ns.begin(), ns.end());
  std::printf("%.0f\n", ns[kRounds / 2]);
  return 0;
}
