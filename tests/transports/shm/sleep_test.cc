// SPDX-License-Identifier: Apache-2.0
// Whoever falls asleep at the very moment in which it gets something to do sees that, or is woken.
#include <algorithm>
#include <array>
#include <atomic>
#include <catch2/catch.hpp>
#include <chrono>
#include <functional>
#include <limits>
#include <new>
#include <thread>

#include "tests/support/seed.h"
#include "tests/transports/shm/world.h"

namespace rondel::shm::test {
namespace {

using std::chrono::nanoseconds;
using std::chrono::seconds;

/// When one falls asleep and the other makes it something to do: in each round at about the same time, so
/// that either may be the first by the few instructions that an order of memory decides about.
class SameMoment {
 public:
  /// The one that falls asleep names the time.
  void name(std::uint64_t round, rondel::test::Random& random) {
    at_.store((Deadline::Clock::now() + kSoon).time_since_epoch().count(), std::memory_order_relaxed);
    round_.store(round, std::memory_order_release);  // pairs with meet()
    wait_until(at_.load(std::memory_order_relaxed), random);
  }
  /// The other comes; false when there are no more rounds.
  bool meet(std::uint64_t round, rondel::test::Random& random) {
    std::uint64_t named = 0;
    while ((named = round_.load(std::memory_order_acquire)) < round) {  // pairs with name() and end()
    }
    wait_until(at_.load(std::memory_order_relaxed), random);
    return named == round;
  }
  void end() { round_.store(std::numeric_limits<std::uint64_t>::max(), std::memory_order_release); }

 private:
  static constexpr nanoseconds kSoon{2000};
  static void wait_until(Deadline::Clock::rep at, rondel::test::Random& random) {
    const auto until = Deadline::Clock::time_point(nanoseconds(at) + nanoseconds(random.below(4000)));
    while (Deadline::Clock::now() < until) {
    }
  }

  std::atomic<std::uint64_t> round_{0};
  std::atomic<Deadline::Clock::rep> at_{0};
};

constexpr std::uint64_t kMoments = 100'000;

/// What one shows the other on its board: words in lines of their own, which are on their way while it looks
/// whether the other sleeps, and then their number.
struct Show {
  struct alignas(64) Line {
    std::uint64_t word = 0;
  };
  std::array<Line, 16> lines;
  alignas(64) std::uint64_t number = 0;
};

struct Ball final : Awaited {
  explicit Ball(const Show& of) : show(of) {}
  bool ready() const override {
    return __atomic_load_n(&show.number, __ATOMIC_ACQUIRE) >= wanted;  // pairs with its store
  }
  bool waits_for(Rank rank) const override { return rank == 0; }
  bool is_whole() const {
    return std::all_of(show.lines.begin(), show.lines.end(),
                       [this](const auto& l) { return l.word == wanted; });
  }
  const Show& show;
  std::uint64_t wanted = 0;
};

// Returns the longest wait: a lost wake costs the five seconds of a progress call.
nanoseconds longest_wait(Endpoint& endpoint, const std::function<bool()>& done) {
  const auto begun = Deadline::Clock::now();
  while (!done())
    if (!endpoint.progress(seconds(5)).ok()) return seconds(1000);
  return Deadline::Clock::now() - begun;
}

}  // namespace

TEST_CASE("boards: who falls asleep while a number is raised sees it, or is woken") {
  Pair pair = connected_pair({.spin = nanoseconds(0)});
  for (Endpoint* const endpoint : {pair.zero.get(), pair.one.get()})
    REQUIRE(endpoint->load_store()->open_board().ok());
  const std::uint64_t seed = rondel::test::test_seed();
  SameMoment moment;
  std::atomic<bool> shown{false};
  LoadStore& raising = *pair.zero->load_store();
  REQUIRE(raising.board_of(1) != nullptr);  // whether it sleeps can be seen
  std::thread other([&] {
    rondel::test::Random random(seed + 1);
    Show& show = *new (raising.board().data()) Show;
    shown.store(true, std::memory_order_release);  // pairs with the load below
    for (std::uint64_t round = 1; moment.meet(round, random); ++round) {
      for (Show::Line& line : show.lines) line.word = round;
      // No std::atomic: where nothing is inlined its order is no constant, and any order is made the
      // strictest.
      __atomic_store_n(&show.number, round, __ATOMIC_RELEASE);  // pairs with ready()
      raising.published();
    }
  });
  rondel::test::Random random(seed);
  LoadStore& waiting = *pair.one->load_store();
  while (!shown.load(std::memory_order_acquire)) {  // pairs with the store above
  }
  Ball ball(*std::launder(reinterpret_cast<const Show*>(waiting.board_of(0))));
  nanoseconds longest{0};
  bool whole = true;
  for (ball.wanted = 1; ball.wanted <= kMoments && longest < seconds(4); ++ball.wanted) {
    waiting.await(&ball);
    moment.name(ball.wanted, random);
    longest = std::max(longest, longest_wait(*pair.one, [&ball] { return ball.ready(); }));
    waiting.await(nullptr);
    whole = whole && ball.is_whole();
  }
  moment.end();
  other.join();
  CHECK(longest < seconds(4));
  CHECK(whole);
}

TEST_CASE("lanes: who falls asleep while a message comes sees it, or is woken") {
  Pair pair = connected_pair({.spin = nanoseconds(0)});
  const std::uint64_t seed = rondel::test::test_seed();
  SameMoment moment;
  const auto work_of = [](Endpoint& endpoint, std::uint64_t& word) {
    return *endpoint.register_memory({reinterpret_cast<std::byte*>(&word), sizeof word});
  };
  std::uint64_t sent = 0, received = 0;
  const auto source = work_of(*pair.zero, sent), target = work_of(*pair.one, received);
  const Slice from{source.get(), 0, sizeof sent}, to{target.get(), 0, sizeof received};
  std::thread other([&] {
    rondel::test::Random random(seed + 1);
    for (sent = 1; moment.meet(sent, random); ++sent) {
      Completion done;
      done.arm(1);
      const Work send{.verb = Verb::send, .peer = 1, .local = {&from, 1}, .done = &done};
      if (!pair.zero->post({&send, 1}, {}).ok()) return;
      while (!done.done() && pair.zero->progress(nanoseconds::zero()).ok()) {
      }
    }
  });
  rondel::test::Random random(seed);
  nanoseconds longest{0};
  for (std::uint64_t round = 1; round <= kMoments && longest < seconds(4); ++round) {
    Completion done;
    done.arm(1);
    const Work receive{.verb = Verb::recv, .peer = 0, .local = {&to, 1}, .done = &done};
    if (!pair.one->post({&receive, 1}, {}).ok()) break;
    moment.name(round, random);
    longest = std::max(longest, longest_wait(*pair.one, [&done] { return done.done(); }));
  }
  moment.end();
  other.join();
  CHECK(longest < seconds(4));
  CHECK(received == sent - 1);
}

}  // namespace rondel::shm::test
