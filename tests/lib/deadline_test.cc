// SPDX-License-Identifier: Apache-2.0
#include "lib/deadline.h"

#include <catch2/catch.hpp>
#include <chrono>

namespace {

using namespace std::chrono_literals;
using rondel::Deadline;

TEST_CASE("deadline: the past has passed and nothing is left of it") {
  for (const Deadline deadline :
       {Deadline::in(0ns), Deadline::in(-5s), Deadline::at(Deadline::Clock::time_point{})}) {
    CHECK(deadline.passed());
    CHECK(deadline.left() == 0ns);
    CHECK(deadline.left_ms() == 0);
  }
}

TEST_CASE("deadline: the future is ahead by no more than was asked") {
  const auto before = Deadline::Clock::now();
  const Deadline deadline = Deadline::in(10min);
  const auto after = Deadline::Clock::now();
  CHECK_FALSE(deadline.passed());
  CHECK(deadline.left() <= 10min);
  CHECK(deadline.left() > 9min);
  CHECK(deadline.when() >= before + 10min);
  CHECK(deadline.when() <= after + 10min);
  CHECK(deadline.left_ms() <= 600'000);
  CHECK(deadline.left_ms() > 540'000);
}

TEST_CASE("deadline: any time left is at least one millisecond, so that a poll does not spin") {
  const Deadline deadline = Deadline::in(900us);
  const int left_ms = deadline.left_ms();
  CHECK((left_ms == 1 || (left_ms == 0 && deadline.passed())));
}

TEST_CASE("deadline: milliseconds are capped at an hour") {
  CHECK(Deadline::in(24h * 365).left_ms() == 3'600'000);
}

TEST_CASE("deadline: the earlier of two") {
  const auto now = Deadline::Clock::now();
  const Deadline early = Deadline::at(now + 1s), late = Deadline::at(now + 2s);
  CHECK(early.or_before(late).when() == early.when());
  CHECK(late.or_before(early).when() == early.when());
}

TEST_CASE("deadline: a point in time given is the point in time kept") {
  const auto when = Deadline::Clock::now() + 3s;
  CHECK(Deadline::at(when).when() == when);
}

}  // namespace
