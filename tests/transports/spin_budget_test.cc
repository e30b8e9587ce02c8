// SPDX-License-Identifier: Apache-2.0
// Polling goes on for as long as it pays, and no longer.
#include "transports/spin_budget.h"

#include <catch2/catch.hpp>
#include <chrono>

namespace rondel {
namespace {

using std::chrono::microseconds;
constexpr microseconds kMost(1000);

}  // namespace

TEST_CASE("waits that end just after falling asleep make polling short") {
  SpinBudget budget(kMost);
  CHECK(budget.now() == kMost);
  budget.ended_sleeping(microseconds(1010));
  CHECK(budget.now() == SpinBudget::kLeast);
}

TEST_CASE("a peer that is busy for long changes nothing") {
  SpinBudget budget(kMost);
  for (int i = 0; i < 1000; ++i) budget.ended_sleeping(microseconds(50'000));
  CHECK(budget.now() == kMost);
}

TEST_CASE("short polling is given up when long polling is seen to pay") {
  SpinBudget budget(kMost);
  budget.ended_sleeping(microseconds(1010));
  int waits = 0;
  while (budget.now() != kMost && waits < 1000) {
    budget.ended_sleeping(microseconds(60));
    ++waits;
  }
  CHECK(waits == SpinBudget::kWaitsPerTry);  // the try
  budget.ended_polling();
  CHECK(budget.now() == kMost);
}

TEST_CASE("a try that fails costs one wait") {
  SpinBudget budget(kMost);
  int long_waits = 0;
  constexpr int kWaits = 6'500;
  for (int i = 0; i < kWaits; ++i) {
    if (budget.now() == kMost) ++long_waits;
    budget.ended_sleeping(budget.now() + microseconds(10));
  }
  CHECK(long_waits == kWaits / (SpinBudget::kWaitsPerTry + 1));
}

TEST_CASE("never longer than was allowed") {
  SpinBudget none(microseconds(0));
  CHECK(none.now() == microseconds(0));
  CHECK(none.least() == microseconds(0));
  none.ended_sleeping(microseconds(10));
  none.ended_polling();
  CHECK(none.now() == microseconds(0));
}

}  // namespace rondel
