// SPDX-License-Identifier: Apache-2.0
// Works of few bytes: they cost no credit, never run a peer out of receives, and are told apart from large
// ones before a byte is written.
#include <poll.h>

#include <algorithm>
#include <array>
#include <catch2/catch.hpp>
#include <deque>
#include <functional>
#include <memory>
#include <stdexcept>
#include <thread>

#include "tests/support/seed.h"
#include "tests/transports/verbs/world.h"
#include "transports/verbs/frame.h"

namespace rondel::verbs::test {
namespace {

constexpr std::chrono::nanoseconds kNoWait = std::chrono::nanoseconds::zero();
constexpr std::size_t kLarge = kEagerBytes + 1;

bool drive_until(PairOfRanks& ranks, const std::function<bool()>& reached) {
  const Deadline deadline = Deadline::in(std::chrono::seconds(10));
  while (!reached() && !deadline.passed())
    for (Endpoint* endpoint : {&ranks.zero(), &ranks.one()}) (void)endpoint->progress(kNoWait);
  return reached();
}

std::uint64_t counter(const Endpoint& endpoint, std::string_view name) {
  for (const Counter& counter : endpoint.counters())
    if (counter.name == name) return counter.value;
  throw std::runtime_error("no such counter");
}

TEST_CASE("a work of few bytes is one message: no credit, no write, no completion") {
  for (const std::size_t bytes : {std::size_t{0}, std::size_t{8}, kEagerBytes}) {
    const FakeVerbs fabric;
    PairOfRanks ranks;
    const auto before = fabric.counts();
    CHECK(ranks.send(bytes) == "");
    const auto after = fabric.counts();
    CHECK(after.requests - before.requests == 1);
    CHECK(after.signalled == before.signalled);
    CHECK(after.written_bytes == before.written_bytes);
    CHECK(counter(ranks.one(), "work_requests") == 0);  // its side sent nothing at all
    CHECK(counter(ranks.zero(), "eager_sends") == 1);
    CHECK(ranks.zero().bytes_sent() == bytes);
    CHECK(ranks.one().bytes_received() == bytes);
  }
  const FakeVerbs fabric;
  PairOfRanks ranks;
  CHECK(ranks.send(kLarge) == "");
  CHECK(fabric.counts().requests == 2);  // a credit and a write
}

TEST_CASE("works back and forth tell of free receives by themselves") {
  const FakeVerbs fabric;
  PairOfRanks ranks;
  constexpr std::uint64_t kRounds = 10 * kEagerWindow;
  for (std::uint64_t i = 0; i < kRounds; ++i) {
    OneWork out0(ranks.zero(), Verb::send, 8);
    OneWork in0(ranks.zero(), Verb::recv, 8);
    OneWork out1(ranks.one(), Verb::send, 8);
    OneWork in1(ranks.one(), Verb::recv, 8);
    REQUIRE(in0.post(ranks.zero(), 1).ok());
    REQUIRE(in1.post(ranks.one(), 0).ok());
    REQUIRE(out0.post(ranks.zero(), 1).ok());
    REQUIRE(out1.post(ranks.one(), 0).ok());
    REQUIRE(drive_until(ranks, [&] { return in0.done.done() && in1.done.done() && out0.done.done(); }));
    REQUIRE(drive_until(ranks, [&] { return out1.done.done(); }));
  }
  CHECK(fabric.counts().requests == 2 * kRounds);
}

TEST_CASE("sends that have no receive yet are held, finish, and stop where the peer's receives end") {
  const FakeVerbs fabric;
  PairOfRanks ranks;
  constexpr std::uint32_t kWorks = 3 * kEagerWindow;
  std::deque<OneWork> sends;
  std::size_t begun = 0;
  const auto finished = [&] {
    return std::count_if(sends.begin(), sends.end(), [](const OneWork& one) { return one.done.done(); });
  };
  // As many as may be posted, again and again, until no more finish.
  for (int turns = 0; turns < 100; ++turns) {
    const std::size_t open = begun - static_cast<std::size_t>(finished());
    for (std::size_t i = open; i < kMaxInFlight && begun < kWorks; ++i, ++begun) {
      sends.emplace_back(ranks.zero(), Verb::send, 16);
      sends.back().buffer.bytes[0] = static_cast<std::byte>(begun);
      REQUIRE(sends.back().post(ranks.zero(), 1).ok());
    }
    for (Endpoint* endpoint : {&ranks.zero(), &ranks.one()}) REQUIRE(endpoint->progress(kNoWait).ok());
  }
  CHECK(finished() == kEagerWindow);
  CHECK(fabric.counts().requests == kEagerWindow);
  std::deque<OneWork> receives;
  for (std::uint32_t i = 0; i < kWorks; ++i) {
    receives.emplace_back(ranks.one(), Verb::recv, 16);
    REQUIRE(receives.back().post(ranks.one(), 0).ok());
    REQUIRE(drive_until(ranks, [&] {
      if (begun < kWorks && begun - static_cast<std::size_t>(finished()) < kMaxInFlight) {
        sends.emplace_back(ranks.zero(), Verb::send, 16);
        sends.back().buffer.bytes[0] = static_cast<std::byte>(begun++);
        REQUIRE(sends.back().post(ranks.zero(), 1).ok());
      }
      return receives.back().done.done();
    }));
    CHECK(receives.back().done.code() == Code::ok);
    CHECK(receives.back().buffer.bytes[0] == static_cast<std::byte>(i));
  }
  CHECK(drive_until(ranks, [&] { return finished() == kWorks; }));
  CHECK(ranks.zero().failure().ok());
}

TEST_CASE("a receive that is posted for a message that is there makes the descriptor ready") {
  const FakeVerbs fabric;
  PairOfRanks ranks;
  OneWork out(ranks.zero(), Verb::send, 8);
  REQUIRE(out.post(ranks.zero(), 1).ok());
  pollfd sent{ranks.zero().wait_descriptor(), POLLIN, 0};
  CHECK(::poll(&sent, 1, 0) == 1);
  REQUIRE(drive_until(ranks, [&] { return out.done.done(); }));
  for (int i = 0; i < 3; ++i) REQUIRE(ranks.one().progress(kNoWait).ok());
  OneWork in(ranks.one(), Verb::recv, 8);
  REQUIRE(in.post(ranks.one(), 0).ok());
  CHECK_FALSE(in.done.done());
  pollfd item{ranks.one().wait_descriptor(), POLLIN, 0};
  CHECK(::poll(&item, 1, 0) == 1);
  CHECK(*ranks.one().progress(kNoWait) == 1);
  CHECK(in.done.done());
}

struct Lengths {
  std::size_t sent;
  std::size_t expected;
};

TEST_CASE("P5: small against large is a mismatch with both sides' values, whoever comes first") {
  for (const Lengths c : {Lengths{8, kLarge}, Lengths{kLarge, 8}, Lengths{8, 8}, Lengths{8, 9},
                          Lengths{0, 5'000'000}, Lengths{5'000'000, 0}, Lengths{kEagerBytes, kLarge}}) {
    for (const bool receive_first : {false, true}) {
      INFO(c.sent << " bytes sent, " << c.expected << " expected, receive first: " << receive_first);
      const FakeVerbs fabric;
      PairOfRanks ranks;
      CHECK(ranks.send(8) == "");  // numbers are not all 0
      CHECK(ranks.send(1000) == "");
      OneWork out(ranks.zero(), Verb::send, c.sent, Label{{7, 1}});
      OneWork in(ranks.one(), Verb::recv, c.expected, Label{{7, 2}});
      std::fill(out.buffer.bytes.begin(), out.buffer.bytes.end(), std::byte{0x5a});
      if (receive_first) REQUIRE(in.post(ranks.one(), 0).ok());
      REQUIRE(out.post(ranks.zero(), 1).ok());
      for (int i = 0; i < 3; ++i)
        for (Endpoint* endpoint : {&ranks.zero(), &ranks.one()}) (void)endpoint->progress(kNoWait);
      if (!receive_first) REQUIRE(in.post(ranks.one(), 0).ok());
      REQUIRE(drive_until(ranks, [&] { return !ranks.one().failure().ok(); }));
      CHECK(ranks.one().failure().code() == Code::mismatch);
      CHECK(in.done.code() == Code::mismatch);
      const auto mismatch = ranks.one().mismatch();
      REQUIRE(mismatch);
      CHECK(mismatch->peer == 0);
      CHECK(mismatch->my_bytes == c.expected);
      CHECK(mismatch->their_bytes == c.sent);
      CHECK(mismatch->mine == Label{{7, 2}});
      CHECK(mismatch->theirs == Label{{7, 1}});
      CHECK(std::all_of(in.buffer.bytes.begin(), in.buffer.bytes.end(),
                        [](std::byte one) { return one == std::byte{0}; }));
      ranks.zero().abort(Code::aborted);  // its work ends before its buffer
    }
  }
}

// What the labels do not tell apart, the numbers of the works must.
TEST_CASE("P5: a large work behind a mismatch of small and large is not written in the wrong place") {
  for (const bool sender_is_small : {false, true}) {
    const FakeVerbs fabric;
    PairOfRanks ranks;
    OneWork out_small(ranks.zero(), Verb::send, 8);
    OneWork out_large(ranks.zero(), Verb::send, kLarge);
    OneWork in_small(ranks.one(), Verb::recv, 8);
    OneWork in_large(ranks.one(), Verb::recv, kLarge);
    std::fill(out_large.buffer.bytes.begin(), out_large.buffer.bytes.end(), std::byte{0x5a});
    std::array<OneWork*, 2> sends{&out_small, &out_large};
    std::array<OneWork*, 2> receives{&in_large, &in_small};
    if (!sender_is_small) {
      std::swap(sends[0], sends[1]);
      std::swap(receives[0], receives[1]);
    }
    for (OneWork* one : receives) REQUIRE(one->post(ranks.one(), 0).ok());
    REQUIRE(ranks.zero().progress(kNoWait).ok());  // takes the credit
    for (OneWork* one : sends) REQUIRE(one->post(ranks.zero(), 1).ok());
    REQUIRE(drive_until(ranks, [&] { return !ranks.one().failure().ok(); }));
    CHECK(ranks.one().mismatch()->their_bytes == (sender_is_small ? 8 : kLarge));
    CHECK(in_large.buffer.bytes == Bytes(kLarge));
    CHECK(fabric.counts().written_bytes == 0);
    ranks.zero().abort(Code::aborted);
  }
}

TEST_CASE("a small receive that sleeps learns that its sender has a large work, from one that sleeps too") {
  const FakeVerbs fabric;
  PairOfRanks ranks;
  OneWork out(ranks.zero(), Verb::send, kLarge);
  OneWork in(ranks.one(), Verb::recv, 8);
  REQUIRE(out.post(ranks.zero(), 1).ok());
  REQUIRE(in.post(ranks.one(), 0).ok());
  const Deadline deadline = Deadline::in(std::chrono::seconds(20));
  std::thread other([&] {
    while (ranks.zero().failure().ok() && !deadline.passed())
      (void)ranks.zero().progress(std::chrono::seconds(20));
  });
  while (ranks.one().failure().ok() && !deadline.passed())
    (void)ranks.one().progress(std::chrono::seconds(20));
  other.join();
  CHECK(ranks.one().failure().code() == Code::mismatch);
  CHECK(ranks.zero().failure().code() == Code::peer_lost);
  CHECK_FALSE(deadline.passed());
}

// Batches of works of all kinds in both directions, in pieces that differ between the sides.
TEST_CASE("small and large works, plain and folding, keep their order in many batches") {
  const std::uint64_t seed = rondel::test::test_seed();
  rondel::test::Random random(seed);
  const FakeVerbs fabric;
  PairOfRanks ranks;
  struct Pair {
    std::unique_ptr<OneWork> out, in;
    Rank from = 0;
    Bytes expected;
  };
  for (int round = 0; round < 300; ++round) {
    std::deque<Pair> pairs;
    const auto works = 1 + random.below(kMaxInFlight);
    for (const Rank from : {0, 1}) {
      for (std::uint64_t i = 0; i < works; ++i) {
        constexpr std::size_t kLimits[] = {1, 9, kEagerBytes + 1, kEagerBytes + 3, 600'000};
        const std::size_t bytes = random.below(kLimits[random.below(std::size(kLimits))]);
        Endpoint* const ends[] = {&ranks.zero(), &ranks.one()};
        Pair& pair = pairs.emplace_back();
        pair.from = from;
        pair.out = std::make_unique<OneWork>(*ends[from], Verb::send, bytes);
        pair.in = std::make_unique<OneWork>(*ends[1 - from],
                                            random.happens(0.5) ? Verb::recv : Verb::recv_reduce, bytes);
        pair.in->work.reduction.type = DataType::uint8;
        for (std::byte& one : pair.out->buffer.bytes) one = static_cast<std::byte>(random.next());
        std::fill(pair.in->buffer.bytes.begin(), pair.in->buffer.bytes.end(), std::byte{3});
        pair.expected = pair.out->buffer.bytes;
        if (pair.in->work.verb == Verb::recv_reduce)
          for (std::byte& one : pair.expected)
            one = static_cast<std::byte>(std::to_integer<unsigned>(one) + 3);
        pair.out->work.peer = 1 - from;
        pair.in->work.peer = from;
      }
    }
    std::array<std::vector<Work>, 2> batches;  // by rank
    for (const Pair& pair : pairs) {
      batches[static_cast<std::size_t>(pair.from)].push_back(pair.out->work);
      batches[static_cast<std::size_t>(1 - pair.from)].push_back(pair.in->work);
    }
    for (std::size_t rank = 0; rank < 2; ++rank) {
      Endpoint& endpoint = rank == 0 ? ranks.zero() : ranks.one();
      const std::size_t cut = random.below(batches[rank].size() + 1);
      REQUIRE(endpoint.post(std::span(batches[rank]).first(cut), {}).ok());
      if (random.happens(0.5)) REQUIRE(ranks.zero().progress(kNoWait).ok());
      if (random.happens(0.5)) REQUIRE(ranks.one().progress(kNoWait).ok());
      REQUIRE(endpoint.post(std::span(batches[rank]).subspan(cut), {}).ok());
    }
    REQUIRE(drive_until(ranks, [&] {
      return std::all_of(pairs.begin(), pairs.end(),
                         [](const Pair& pair) { return pair.in->done.done() && pair.out->done.done(); });
    }));
    for (const Pair& pair : pairs) REQUIRE(pair.in->buffer.bytes == pair.expected);
  }
}

TEST_CASE("what a peer sent eagerly before it left is received, what it did not send fails") {
  for (const bool orderly : {true, false}) {
    const FakeVerbs fabric;
    PairOfRanks ranks;
    OneWork first(ranks.one(), Verb::send, 8);
    OneWork second(ranks.one(), Verb::send, 8);
    first.buffer.bytes[0] = std::byte{1};
    second.buffer.bytes[0] = std::byte{2};
    for (OneWork* one : {&first, &second}) REQUIRE(one->post(ranks.one(), 0).ok());
    while (!first.done.done() || !second.done.done()) REQUIRE(ranks.one().progress(kNoWait).ok());
    if (!orderly) ranks.one().abort(Code::aborted);
    ranks.end_one();
    for (int i = 0; i < 3; ++i) REQUIRE(ranks.zero().progress(std::chrono::milliseconds(2)).ok());  // F3
    OneWork in(ranks.zero(), Verb::recv, 8);
    REQUIRE(in.post(ranks.zero(), 1).ok());
    REQUIRE(ranks.zero().progress(std::chrono::seconds(1)).ok());
    CHECK((in.done.done() && in.done.code() == Code::ok));
    CHECK(in.buffer.bytes[0] == std::byte{1});
    OneWork in_again(ranks.zero(), Verb::recv, 8);
    OneWork too_many(ranks.zero(), Verb::recv, 8);
    REQUIRE(in_again.post(ranks.zero(), 1).ok());
    REQUIRE(too_many.post(ranks.zero(), 1).ok());
    const Status failure = ranks.failure_of_zero();
    CHECK((in_again.done.done() && in_again.done.code() == Code::ok));
    CHECK(in_again.buffer.bytes[0] == std::byte{2});
    CHECK(failure.code() == Code::peer_lost);
    CHECK(failure.failure().peer == 1);
    CHECK(too_many.done.code() == Code::peer_lost);
  }
}

TEST_CASE("an endpoint ends only when what it sent eagerly has arrived, or can not arrive") {
  FakeVerbs fabric;
  PairOfRanks ranks;
  CHECK(ranks.send(8) == "");
  const auto before = fabric.counts();
  ranks.end_one();  // it sent nothing
  CHECK(fabric.counts().requests == before.requests);
  PairOfRanks others;
  OneWork out(others.one(), Verb::send, 8);
  REQUIRE(out.post(others.one(), 0).ok());
  while (!out.done.done()) REQUIRE(others.one().progress(kNoWait).ok());
  const auto signalled = fabric.counts().signalled;
  others.end_one();
  CHECK(fabric.counts().signalled == signalled + 1);
  // A device that never answers: its peer's end is enough.
  PairOfRanks last;
  fabric.withhold_acknowledgements(true);
  OneWork lost(last.one(), Verb::send, 8);
  REQUIRE(lost.post(last.one(), 0).ok());
  while (!lost.done.done()) REQUIRE(last.one().progress(kNoWait).ok());
  last.zero().abort(Code::aborted);
  const auto started = Deadline::Clock::now();
  last.end_one();
  CHECK(Deadline::Clock::now() - started < std::chrono::seconds(2));
  fabric.withhold_acknowledgements(false);
}

}  // namespace
}  // namespace rondel::verbs::test
