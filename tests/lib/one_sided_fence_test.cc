// SPDX-License-Identifier: Apache-2.0
// The litmus test of store buffering: two threads each store to one place and then load the other's. With a
// fence on both sides at least one sees the other's store.
#include "lib/one_sided_fence.h"

#include <atomic>
#include <catch2/catch.hpp>
#include <cstdint>
#include <stdexcept>
#include <thread>

namespace rondel {
namespace {

struct Place {
  alignas(64) std::uint32_t value = 0;
};

// Not std::atomic: where nothing is inlined its order is no constant, and any order is made the strictest.
void store(Place& place, std::uint32_t value) { __atomic_store_n(&place.value, value, __ATOMIC_RELEASE); }
std::uint32_t load(const Place& place) { return __atomic_load_n(&place.value, __ATOMIC_ACQUIRE); }

/// How often neither saw the other's store, when the first thread has `first_fence` between its two accesses.
template <class First, class Second>
int missed(int rounds, First first_fence, Second second_fence) {
  Place x, y, begun, ended, seen_by_first;
  int both_missed = 0;
  std::thread first([&] {
    for (std::uint32_t i = 1; i <= static_cast<std::uint32_t>(rounds); ++i) {
      while (load(begun) != i) {
      }
      store(x, i);
      first_fence();
      store(seen_by_first, load(y));
      store(ended, i);
    }
  });
  for (std::uint32_t i = 1; i <= static_cast<std::uint32_t>(rounds); ++i) {
    store(begun, i);
    for (std::uint32_t pause = i % 256; pause > 0; --pause)  // until the other has begun
      std::atomic_signal_fence(std::memory_order_seq_cst);
    store(y, i);
    second_fence();
    const std::uint32_t seen = load(x);
    while (load(ended) != i) {
    }
    if (seen != i && load(seen_by_first) != i) ++both_missed;
  }
  first.join();
  return both_missed;
}

}  // namespace

TEST_CASE("whoever pays nothing for the fence and whoever pays for both do not miss one another") {
  if (!OneSidedFence::join()) {
    WARN("this kernel does not offer it (membarrier)");
    return;
  }
  constexpr int kRounds = 20'000;
  const auto heavy = [] {
    if (!OneSidedFence::heavy()) throw std::runtime_error("membarrier failed");
  };
  CHECK(missed(
            kRounds, [] { OneSidedFence::light(); }, heavy) == 0);
  CHECK(missed(kRounds, heavy, [] { OneSidedFence::light(); }) == 0);
}

}  // namespace rondel
