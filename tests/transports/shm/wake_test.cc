// SPDX-License-Identifier: Apache-2.0
// Whoever sleeps is woken: no wake is lost, however sleep and work fall together.
#include <catch2/catch.hpp>
#include <chrono>
#include <thread>

#include "tests/support/seed.h"
#include "tests/transports/shm/world.h"

namespace rondel::shm::test {
namespace {

using std::chrono::microseconds;
using std::chrono::milliseconds;
using std::chrono::nanoseconds;
using std::chrono::seconds;

// Sleeps for a while that is about as long as a message takes, so that both orders happen often.
void dawdle(rondel::test::Random& random) {
  const auto until = Deadline::in(nanoseconds(random.below(3000)));
  while (!until.passed()) {
  }
}

// One side of a ping-pong whose waits never poll. Returns the longest wait.
nanoseconds play(Endpoint& endpoint, Rank peer, int rounds, std::uint64_t seed) {
  rondel::test::Random random(seed);
  std::uint64_t ball = 0;
  const auto memory = endpoint.register_memory({reinterpret_cast<std::byte*>(&ball), sizeof ball});
  const Slice slice{memory->get(), 0, sizeof ball};
  nanoseconds longest{0};
  for (int i = 0; i < rounds; ++i) {
    const bool sends = (i + peer) % 2 == 0;
    Completion done;
    done.arm(1);
    dawdle(random);
    const Work work{
        .verb = sends ? Verb::send : Verb::recv, .peer = peer, .local = {&slice, 1}, .done = &done};
    if (!endpoint.post({&work, 1}, {}).ok()) return seconds(1000);
    const auto begun = Deadline::Clock::now();
    while (!done.done())
      if (!endpoint.progress(seconds(5)).ok()) return seconds(1000);
    longest = std::max<nanoseconds>(longest, Deadline::Clock::now() - begun);
  }
  return longest;
}

}  // namespace

TEST_CASE("a ping-pong between two that sleep at once never waits for a clock") {
  Pair pair = connected_pair({.spin = nanoseconds(0)});
  constexpr int kRounds = 20'000;
  const std::uint64_t seed = rondel::test::test_seed();
  nanoseconds theirs{0};
  std::thread other([&] { theirs = play(*pair.one, 0, kRounds, seed + 1); });
  const nanoseconds mine = play(*pair.zero, 1, kRounds, seed);
  other.join();
  // A lost wake would cost the five seconds of a progress call.
  CHECK(mine < seconds(4));
  CHECK(theirs < seconds(4));
}

TEST_CASE("a receiver that sleeps in the middle of a large message goes on when more of it comes") {
  Pair pair = connected_pair({.spin = nanoseconds(0), .pull = false});
  std::vector<std::byte> out(8U << 20U), in(out.size());
  fill(out, 3);
  const auto source = pair.zero->register_memory({out.data(), out.size()});
  const auto target = pair.one->register_memory({in.data(), in.size()});
  const Slice from{source->get(), 0, out.size()}, to{target->get(), 0, in.size()};
  Completion sent, received;
  sent.arm(1);
  received.arm(1);
  const Work send{.verb = Verb::send, .peer = 1, .local = {&from, 1}, .done = &sent};
  const Work receive{.verb = Verb::recv, .peer = 0, .local = {&to, 1}, .done = &received};
  REQUIRE(pair.zero->post({&send, 1}, {}).ok());
  REQUIRE(pair.one->post({&receive, 1}, {}).ok());
  std::thread other([&] {
    while (!received.done() && pair.one->progress(seconds(5)).ok()) {
    }
  });
  const auto begun = Deadline::Clock::now();
  while (!sent.done() && pair.zero->progress(seconds(5)).ok()) {
  }
  other.join();
  CHECK(Deadline::Clock::now() - begun < seconds(4));
  CHECK(holds(in, 3));
}

}  // namespace rondel::shm::test
