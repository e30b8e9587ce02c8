// SPDX-License-Identifier: Apache-2.0
// Boards and stages between threads that see them at one address, which two processes never do: only so
// ThreadSanitizer knows that a store here and a load there are of the same byte, and every order that lets
// one rank go on to what another has stored can fail a test. Without it the same runs check the sums.
#include <algorithm>
#include <array>
#include <atomic>
#include <catch2/catch.hpp>
#include <memory>
#include <numeric>
#include <span>
#include <string>
#include <thread>
#include <vector>

#include "ring/direct.h"
#include "ring/label.h"
#include "tests/support/rank_test.h"
#include "tests/support/seed.h"
#include "tests/support/thread_world.h"

namespace rondel::test {
namespace {

constexpr Rank kRanks = 3;

/// The boards of all ranks.
struct Boards {
  struct alignas(64) Board {
    std::array<std::byte, LoadStore::kBoardBytes> bytes{};
  };
  std::array<Board, kRanks> boards;
  std::array<std::atomic<bool>, kRanks> shown{};
};

/// One rank's view of them. Memory is named by its address; what lies in `hidden` can not be reached.
class OneMemory final : public LoadStore {
 public:
  OneMemory(Boards& boards, Rank rank, std::span<const std::byte> hidden)
      : boards_(boards), rank_(static_cast<std::size_t>(rank)), hidden_(hidden) {}

  Status open_board() override { return {}; }
  /// Direct makes its board there; nobody may look before.
  void show() { boards_.shown[rank_].store(true, std::memory_order_release); }  // pairs with board_of()
  /// While true, no word of the others' boards has come.
  void be_blind(bool blind) { blind_ = blind; }
  std::span<std::byte> board() override { return boards_.boards[rank_].bytes; }
  std::byte* board_of(Rank peer) override {
    const auto index = static_cast<std::size_t>(peer);
    if (blind_) return nullptr;
    return boards_.shown[index].load(std::memory_order_acquire) ? boards_.boards[index].bytes.data()
                                                                : nullptr;  // pairs with show()
  }
  Reference share(const void* data, std::size_t) override {
    const auto* const at = static_cast<const std::byte*>(data);
    if (at >= hidden_.data() && at < hidden_.data() + hidden_.size()) return {};
    return {1, reinterpret_cast<std::uintptr_t>(at)};
  }
  std::byte* reach(Rank, Reference what, std::size_t) override {
    return reinterpret_cast<std::byte*>(what.offset);  // NOLINT(performance-no-int-to-ptr)
  }
  void published() override {}
  void await(const Awaited*) override {}
  void count(std::uint64_t, std::uint64_t) override {}

 private:
  Boards& boards_;
  const std::size_t rank_;
  const std::span<const std::byte> hidden_;
  bool blind_ = false;
};

/// A rank with a vector that all reach and one that nobody else does.
class Player {
 public:
  static constexpr std::size_t kSome = 60'000;
  static constexpr std::size_t kMost = 400'000;  // a share of more blocks than a stage has room for

  Player(Boards& boards, Rank rank)
      : rank_(rank),
        memory_(boards, rank, std::as_bytes(std::span(hidden_))),
        direct_(memory_, rank, kRanks) {}
  Status open() {
    RONDEL_TRY(direct_.open());
    memory_.show();
    return {};
  }
  Direct& direct() { return direct_; }
  OneMemory& memory() { return memory_; }
  std::span<float> vector(bool reachable, std::size_t count) {
    return std::span(reachable ? reached_ : hidden_).first(count);
  }

  void begin(std::span<float> data) {
    operation_.request = {};
    operation_.request.kind = CollectiveKind::all_reduce;
    operation_.request.input = operation_.request.output = data.data();
    operation_.request.count = data.size();
    operation_.footprint = *check_request(operation_.request, rank_, kRanks);
    operation_.label = make_label(operation_.request, ++operation_.sequence);
    direct_.begin(operation_);
  }
  Status finish() {
    for (;;) {
      const auto state = direct_.advance();
      RONDEL_TRY(state);
      if (*state != Direct::State::waiting) return {};
      std::this_thread::yield();
    }
  }

 private:
  const Rank rank_;
  std::vector<float> reached_ = std::vector<float>(kMost);
  std::vector<float> hidden_ = std::vector<float>(kMost);
  OneMemory memory_;
  Direct direct_;
  Operation operation_;
};

/// What a rank gives to operation `number`, and the sum of what all give.
float given(Rank rank, std::size_t number, std::size_t at) {
  return static_cast<float>((number * 7 + at + static_cast<std::size_t>(rank)) % 1000);
}
float summed(std::size_t number, std::size_t at) {
  float sum = 0;
  for (Rank rank = 0; rank < kRanks; ++rank) sum += given(rank, number, at);
  return sum;
}

}  // namespace

TEST_CASE(
    "slots, done and stages: what a rank stores is seen by who goes on, and nothing is overwritten too "
    "early") {
  const std::uint64_t seed = test_seed();
  Boards boards;
  Meeting all_ended(kRanks);
  CHECK(all_of(run_as_threads(kRanks, [seed, &boards, &all_ended](RankTest& test) {
          Random random(seed);  // the same on every rank
          Player player(boards, test.rank());
          test.require_ok(player.open(), "board");
          for (std::size_t number = 0; number < 200; ++number) {
            // With the number; in a slot's payload; by loads and stores, or over stages, of a block or
            // several.
            const std::array<std::size_t, 5> most{4, 1024, 12'000, Player::kSome, Player::kMost};
            const std::size_t count = 1 + random.below(most[random.below(5)]);
            const auto data = player.vector(random.happens(0.5), count);
            for (std::size_t at = 0; at < count; ++at) data[at] = given(test.rank(), number, at);
            player.begin(data);
            test.require_ok(player.finish(), "allreduce " + std::to_string(number));
            for (std::size_t at = 0; at < count; ++at)
              test.require(data[at] == summed(number, at), "the sum of operation " + std::to_string(number));
          }
          // Others may still take from this rank's stage, which processes map for themselves.
          test.require(all_ended.arrive_and_wait(Deadline::in(std::chrono::seconds(20))), "all have ended");
        })) == "");
}

TEST_CASE("working and closed: a rank that gives up in the middle has its memory for itself") {
  const std::uint64_t seed = test_seed();
  for (std::uint64_t round = 0; round < 100; ++round) {
    Boards boards;
    Meeting all_left(kRanks);
    CHECK(all_of(run_as_threads(kRanks, [seed, round, &boards, &all_left](RankTest& test) {
            Random random(seed + round);
            const auto rounds_until = random.below(4), turns_until = random.below(60);
            Player player(boards, test.rank());
            test.require_ok(player.open(), "board");
            const auto data = player.vector(true, Player::kSome);
            Status status;
            for (std::uint64_t i = 0; status.ok() && (test.rank() != 2 || i < rounds_until); ++i) {
              player.begin(data);
              status = player.finish();
            }
            if (test.rank() == 2) {
              player.begin(data);
              for (std::uint64_t turn = 0; turn < turns_until; ++turn) std::this_thread::yield();
            } else {
              test.expect_equal(status.code(), Code::peer_lost, status.text());
            }
            player.direct().close();
            std::fill(data.begin(), data.end(), 7.0F);
            test.require(all_left.arrive_and_wait(Deadline::in(std::chrono::seconds(20))), "all have left");
            test.expect(std::count(data.begin(), data.end(), 7.0F) == std::ssize(data),
                        "nobody stores to it any more");
          })) == "");
  }
}

TEST_CASE("nobody works on the memory of a rank that would not see it when it gives up") {
  Boards boards;
  std::array<std::unique_ptr<Player>, kRanks> players;
  for (Rank rank = 0; rank < kRanks; ++rank) {
    auto& player = players[static_cast<std::size_t>(rank)];
    player = std::make_unique<Player>(boards, rank);
    REQUIRE(player->open().ok());
  }
  players[2]->memory().be_blind(true);
  const auto advance = [&players](std::size_t rank) { return players[rank]->direct().advance().value(); };
  for (const auto& player : players) {
    const auto data = player->vector(true, Player::kSome);
    std::fill(data.begin(), data.end(), 1.0F);
    player->begin(data);
  }
  for (const std::size_t rank : {0U, 1U, 2U, 0U, 1U}) CHECK(advance(rank) == Direct::State::waiting);
  CHECK(players[2]->vector(true, 1)[0] == 1.0F);
  players[2]->memory().be_blind(false);
  for (const std::size_t rank : {2U, 0U, 1U, 2U, 0U}) (void)advance(rank);
  CHECK(advance(1) == Direct::State::done);
  CHECK(players[2]->vector(true, Player::kSome).back() == 3.0F);
}

}  // namespace rondel::test
