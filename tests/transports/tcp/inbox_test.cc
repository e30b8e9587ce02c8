// SPDX-License-Identifier: Apache-2.0
// The hand-over between the listener's thread and a driver: nothing is lost, order is kept for each pusher,
// it wakes.
#include "transports/tcp/inbox.h"

#include <poll.h>

#include <catch2/catch.hpp>
#include <thread>

#include "lib/deadline.h"

using rondel::Rank;
using rondel::tcp::Arrival;
using rondel::tcp::Inbox;

TEST_CASE("an inbox keeps the order of arrivals and wakes a poller") {
  Inbox inbox;
  pollfd wake{inbox.wake_descriptor(), POLLIN, 0};
  CHECK(::poll(&wake, 1, 0) == 0);
  CHECK(inbox.take_all().empty());
  for (Rank rank = 0; rank < 5; ++rank) inbox.push({rank, {}, {}});
  CHECK(inbox.may_hold_something());
  CHECK(::poll(&wake, 1, 0) == 1);
  const auto arrivals = inbox.take_all();
  REQUIRE(arrivals.size() == 5);
  for (Rank rank = 0; rank < 5; ++rank) CHECK(arrivals[static_cast<std::size_t>(rank)].peer == rank);
  CHECK(::poll(&wake, 1, 0) == 0);
  CHECK_FALSE(inbox.may_hold_something());
}

TEST_CASE("two pushers and a taker lose nothing and keep each pusher's order") {
  constexpr Rank kEach = 20000;
  Inbox inbox;
  const auto push_from = [&inbox](Rank first) {
    for (Rank i = 0; i < kEach; ++i) inbox.push({first + i, {}, {}});
  };
  std::thread low(push_from, 0);
  std::thread high(push_from, kEach);
  Rank next_low = 0;
  Rank next_high = kEach;
  const auto deadline = rondel::Deadline::in(std::chrono::seconds(30));
  bool in_order = true;
  while ((next_low < kEach || next_high < 2 * kEach) && !deadline.passed()) {
    for (const Arrival& arrival : inbox.take_all()) {
      Rank& next = arrival.peer < kEach ? next_low : next_high;
      in_order &= arrival.peer == next++;
    }
  }
  low.join();
  high.join();
  CHECK(in_order);
  CHECK(next_low == kEach);
  CHECK(next_high == 2 * kEach);
}
