// SPDX-License-Identifier: Apache-2.0
// A lane carries bytes in order from one thread to another without a lock: nothing is seen before it is
// published, nothing is overwritten before it is given back.
#include "transports/shm/lane.h"

#include <catch2/catch.hpp>
#include <cstring>
#include <memory>
#include <numeric>
#include <thread>
#include <vector>

#include "tests/support/seed.h"

namespace rondel::shm {
namespace {

struct Lane {
  std::unique_ptr<Segment> segment = std::make_unique<Segment>();
  LaneWriter writer{segment->lane[0], segment->ring[0]};
  LaneReader reader{segment->lane[0], segment->ring[0]};
};

std::byte value_at(std::uint64_t position) { return static_cast<std::byte>(position * 13 + position / 257); }

}  // namespace

TEST_CASE("what is put is seen after it is published, and the room comes back after it is released") {
  Lane lane;
  const std::vector<std::byte> some(192, std::byte{7});
  CHECK(lane.writer.room() == kLaneBytes);
  lane.writer.put(some);
  CHECK(lane.writer.room() == kLaneBytes - some.size());
  CHECK(lane.reader.available() == 0);
  CHECK(lane.reader.peek(1000).empty());
  lane.writer.publish();
  CHECK(lane.reader.available() == some.size());
  CHECK(lane.reader.peek(100).size() == 100);
  CHECK(lane.reader.peek(1000).size() == some.size());
  lane.reader.skip(some.size());
  CHECK(lane.writer.room() == kLaneBytes - some.size());
  lane.reader.release();
  CHECK(lane.writer.room() == kLaneBytes);
}

TEST_CASE("a full lane has no room, and a run ends where the lane does") {
  Lane lane;
  const std::vector<std::byte> most(kLaneBytes - kAlignment, std::byte{1});
  lane.writer.put(most);
  lane.writer.publish();
  CHECK(lane.writer.room() == kAlignment);
  lane.reader.skip(most.size());
  lane.reader.release();
  std::vector<std::byte> across(3 * kAlignment);
  std::iota(reinterpret_cast<unsigned char*>(across.data()),
            reinterpret_cast<unsigned char*>(across.data()) + across.size(), static_cast<unsigned char>(0));
  lane.writer.put(across);
  lane.writer.publish();
  const auto first = lane.reader.peek(across.size());
  REQUIRE(first.size() == kAlignment);
  CHECK(std::equal(first.begin(), first.end(), across.begin()));
  lane.reader.skip(first.size());
  const auto second = lane.reader.peek(across.size());
  REQUIRE(second.size() == 2 * kAlignment);
  CHECK(std::equal(second.begin(), second.end(), across.begin() + kAlignment));
}

TEST_CASE("a position that no writer can have reached gives no room and is seen as too much") {
  Lane lane;
  lane.segment->lane[0].taken.store(1000);  // more than was ever written
  CHECK(lane.writer.room() == 0);
  lane.segment->lane[0].written.store(kLaneBytes + 64);
  CHECK(lane.reader.available() > kLaneBytes);
}

TEST_CASE("two threads: millions of bytes in pieces of any size arrive whole and in order") {
  Lane lane;
  constexpr std::uint64_t kTotal = 64U << 20U;
  rondel::test::Random random(rondel::test::test_seed());
  const auto first_seed = random.below(1U << 30U), second_seed = random.below(1U << 30U);
  std::thread sender([&lane, first_seed] {
    rondel::test::Random sizes(first_seed);
    std::vector<std::byte> piece;
    for (std::uint64_t at = 0; at < kTotal;) {
      const std::size_t room = lane.writer.room();
      if (room == 0) {
        std::this_thread::yield();
        continue;
      }
      piece.resize(std::min<std::uint64_t>({1 + sizes.below(20'000), room, kTotal - at}));
      for (std::byte& one : piece) one = value_at(at++);
      lane.writer.put(piece);
      lane.writer.publish();
    }
  });
  rondel::test::Random sizes(second_seed);
  std::uint64_t wrong = 0;
  for (std::uint64_t at = 0; at < kTotal;) {
    const auto run = lane.reader.peek(1 + sizes.below(20'000));
    if (run.empty()) std::this_thread::yield();
    for (const std::byte one : run) wrong += one == value_at(at++) ? 0 : 1;
    lane.reader.skip(run.size());
    lane.reader.release();
  }
  sender.join();
  CHECK(wrong == 0);
}

}  // namespace rondel::shm
