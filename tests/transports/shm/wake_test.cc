// SPDX-License-Identifier: Apache-2.0
// Whoever sleeps is woken: no wake is lost, however sleep and work fall together.
#include <poll.h>
#include <sys/syscall.h>

#include <catch2/catch.hpp>
#include <chrono>
#include <new>
#include <thread>

#include "lib/one_sided_fence.h"
#include "tests/support/forbidden_call.h"
#include "tests/support/process_world.h"
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

/// A peer's count on its board, until it is so high.
class Count final : public Awaited {
 public:
  explicit Count(const std::byte* board) : board_(board) {}
  void want(std::uint64_t count) { wanted_ = count; }
  bool ready() const override {
    return __atomic_load_n(std::launder(reinterpret_cast<const std::uint64_t*>(board_)), __ATOMIC_ACQUIRE) >=
           wanted_;
  }
  bool waits_for(Rank) const override { return !ready(); }

 private:
  const std::byte* const board_;
  std::uint64_t wanted_ = 0;
};

// One side of a ping-pong of counts on boards whose waits never poll. Returns the longest wait.
nanoseconds play_on_boards(Endpoint& endpoint, Rank peer, int rounds, std::uint64_t seed) {
  rondel::test::Random random(seed);
  LoadStore& memory = *endpoint.load_store();
  auto* const mine = new (memory.board().data()) std::uint64_t(0);
  const std::byte* board = nullptr;
  while ((board = memory.board_of(peer)) == nullptr)
    if (!endpoint.progress(milliseconds(1)).ok()) return seconds(1000);
  Count theirs(board);
  nanoseconds longest{0};
  for (int i = 1; i <= rounds; ++i) {
    dawdle(random);
    if ((i + peer) % 2 == 0) {
      // Looks all the time, so that its last look is quick and comes before others see the store.
      for (const auto until = Deadline::in(nanoseconds(random.below(3000))); !until.passed();)
        memory.published();
      // No std::atomic: where nothing is inlined its order is no constant, and any order is made the
      // strictest.
      __atomic_store_n(mine, static_cast<std::uint64_t>(i), __ATOMIC_RELEASE);
      memory.published();
      continue;
    }
    theirs.want(static_cast<std::uint64_t>(i));
    memory.await(&theirs);
    const auto begun = Deadline::Clock::now();
    while (!theirs.ready())
      if (!endpoint.progress(seconds(5)).ok()) return seconds(1000);
    memory.await(nullptr);
    longest = std::max<nanoseconds>(longest, Deadline::Clock::now() - begun);
  }
  return longest;
}

// The longest wait of either side.
nanoseconds play_both_on_boards(Pair& pair, int rounds, std::uint64_t seed) {
  nanoseconds theirs{0};
  std::thread other([&] { theirs = play_on_boards(*pair.one, 0, rounds, seed + 1); });
  const nanoseconds mine = play_on_boards(*pair.zero, 1, rounds, seed);
  other.join();
  return std::max(mine, theirs);
}

void open_boards(rondel::test::RankTest& test, const Pair& pair) {
  for (Endpoint* const endpoint : {pair.zero.get(), pair.one.get()})
    test.require(endpoint->load_store()->open_board().ok(), "a board");
}

// Whether who is about to sleep on the descriptor has something to do first.
bool rings(Endpoint& endpoint) {
  pollfd ready{endpoint.wait_descriptor(), POLLIN, 0};
  return ::poll(&ready, 1, 0) == 1;
}

// The first sleep on a descriptor whose fence is refused: a wake may be missed, so there is none yet.
void expect_one_ring(rondel::test::RankTest& test, const Pair& pair) {
  LoadStore& memory = *pair.zero->load_store();
  const std::byte* board = nullptr;
  while ((board = memory.board_of(1)) == nullptr)
    test.require(pair.zero->progress(milliseconds(1)).ok(), "progress");
  Count theirs(board);
  theirs.want(1);
  memory.await(&theirs);
  test.expect(rings(*pair.zero), "a turn more");
  test.expect(pair.zero->progress(nanoseconds(0)).ok(), "progress");
  test.expect(!rings(*pair.zero), "then sleep");
  memory.await(nullptr);
}

// How a game on boards goes in a process of its own, where membarrier is forbidden before or after they open.
void play_where_forbidden(bool before) {
  const std::uint64_t seed = rondel::test::test_seed();
  rondel::test::ProcessWorld world(
      1, [before, seed](rondel::test::RankTest& test, const rondel::test::Voice&) {
        if (before) test.require(rondel::test::forbid_call(SYS_membarrier), "a filter on system calls");
        Pair pair = connected_pair({.spin = nanoseconds(0)});
        open_boards(test, pair);
        test.expect(before != OneSidedFence::join(), "the kernel offers the fence");
        if (!before) test.require(rondel::test::forbid_call(SYS_membarrier), "a filter on system calls");
        if (!before) expect_one_ring(test, pair);
        // A wake that may be missed costs a millisecond, and one in many is.
        test.expect(play_both_on_boards(pair, 2000, seed) < seconds(4), "no wake is waited for in vain");
      });
  const auto ending = world.wait(0, Deadline::in(seconds(60)));
  INFO(ending.words);
  CHECK(ending.exit_code == 0);
}

}  // namespace

TEST_CASE("counts on boards reach those who sleep, and never wait for a clock") {
  Pair pair = connected_pair({.spin = nanoseconds(0)});
  REQUIRE(pair.zero->load_store()->open_board().ok());
  REQUIRE(pair.one->load_store()->open_board().ok());
  CHECK(play_both_on_boards(pair, 20'000, rondel::test::test_seed()) < seconds(4));
}

TEST_CASE("where the fence for all is forbidden, each store has its own") { play_where_forbidden(true); }

TEST_CASE("where the fence for all is forbidden later, sleep is short") { play_where_forbidden(false); }

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
