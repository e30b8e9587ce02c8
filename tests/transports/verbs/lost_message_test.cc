// SPDX-License-Identifier: Apache-2.0
// A message that the device loses after its sender has forgotten it: the works that wait for it on other
// ranks end all the same. Three ranks, so that the link that breaks is idle on the side that hears of it.
#include <array>
#include <catch2/catch.hpp>
#include <chrono>
#include <deque>
#include <string>
#include <thread>
#include <vector>

#include "tests/support/fake_verbs_fabric.h"
#include "tests/transports/verbs/world.h"
#include "transports/verbs/frame.h"

namespace rondel::verbs::test {
namespace {

namespace fake = rondel::test::fake;
using std::chrono::seconds;

constexpr std::chrono::nanoseconds kNoWait = std::chrono::nanoseconds::zero();

/// What a device has taken, and neither delivered nor completed.
struct Taken {
  ibv_qp* pair;
  std::uint64_t request;
};
std::vector<Taken> taken;
bool keeps = false;

int post_or_keep(ibv_qp* pair, ibv_send_wr* list, ibv_send_wr** bad) {
  if (!keeps) return fake::post_send(pair, list, bad);
  for (; list != nullptr; list = list->next) taken.push_back({pair, list->wr_id});
  return 0;
}

VerbsLibrary keeping_library() {
  VerbsLibrary library = FakeVerbs::table();
  library.post_send = &post_or_keep;
  return library;
}

/// The device gives up on what it has taken. `flushes`: the receives of its pair too.
void give_up(bool flushes) {
  const std::scoped_lock lock(fake::fabric().mutex);
  for (const Taken& one : taken) {
    auto& pair = static_cast<fake::Pair&>(*one.pair);
    if (flushes)
      fake::break_pair(pair);
    else
      pair.state = IBV_QPS_ERR;
    fake::complete(pair.send_cq, fake::entry_of(pair, one.request, IBV_WC_RETRY_EXC_ERR, IBV_WC_SEND));
  }
  taken.clear();
}

/// Three ranks, each connected to both others.
class ThreeRanks {
 public:
  ThreeRanks() {
    const auto secret = Secret::generate();
    std::vector<Bytes> addresses;
    for (Rank rank = 0; rank < 3; ++rank) {
      ranks_.push_back(open_rank(*secret, rank, {}, keeping_library(), 3));
      addresses.push_back(ranks_.back().endpoint->address());
    }
    std::array<Status, 3> statuses;
    on_all([&](Rank rank) {
      const std::array<Rank, 2> others{(rank + 1) % 3, (rank + 2) % 3};
      statuses[static_cast<std::size_t>(rank)] =
          at(rank).connect(addresses, others, Deadline::in(seconds(10)));
    });
    for (const Status& status : statuses) REQUIRE(status.ok());
  }
  Endpoint& at(Rank rank) { return *ranks_[static_cast<std::size_t>(rank)].endpoint; }

  /// Each makes progress in a thread of its own, and sleeps in between, until it fails.
  void run_until_all_fail() {
    const Deadline deadline = Deadline::in(seconds(10));
    on_all([&](Rank rank) {
      while (at(rank).failure().ok() && !deadline.passed()) (void)at(rank).progress(seconds(1));
    });
  }

 private:
  template <class Body>
  static void on_all(Body&& body) {
    std::vector<std::thread> threads;
    for (Rank rank = 0; rank < 3; ++rank) threads.emplace_back([&body, rank] { body(rank); });
    for (std::thread& thread : threads) thread.join();
  }

  std::vector<OneRank> ranks_;
};

/// Eight bytes of a rank's, posted at once.
struct SmallWork : OneWork {
  SmallWork(Endpoint& endpoint, Verb verb, Rank peer) : OneWork(endpoint, verb, 8) {
    REQUIRE(post(endpoint, peer).ok());
  }
};

void finish(Endpoint& endpoint, const SmallWork& work) {
  while (!work.done.done()) REQUIRE(endpoint.progress(kNoWait).ok());
  CHECK(work.done.code() == Code::ok);
}

/// A send of rank 0's to rank 1 that is done, and that its device has kept.
void lose_a_message(ThreeRanks& ranks) {
  keeps = true;
  const SmallWork lost(ranks.at(0), Verb::send, 1);
  keeps = false;
  finish(ranks.at(0), lost);
}

TEST_CASE("three ranks that wait for one another in a ring end when a message is lost whose send is done") {
  for (const bool flushes : {false, true}) {
    const FakeVerbs fabric;
    ThreeRanks ranks;
    lose_a_message(ranks);
    const SmallWork first(ranks.at(0), Verb::recv, 2), second(ranks.at(1), Verb::recv, 0),
        third(ranks.at(2), Verb::recv, 1);
    give_up(flushes);
    ranks.run_until_all_fail();
    for (Rank rank = 0; rank < 3; ++rank) {
      INFO("rank " << rank << ", receives flushed: " << flushes << ": " << ranks.at(rank).failure().text());
      CHECK(ranks.at(rank).failure().code() == Code::peer_lost);
    }
    CHECK(ranks.at(1).failure().failure().peer == 0);
    for (Rank rank = 0; rank < 3; ++rank) ranks.at(rank).abort(Code::aborted);
  }
}

TEST_CASE("who waits for a lost message ends though its sender is busy elsewhere and never looks") {
  const FakeVerbs fabric;
  ThreeRanks ranks;
  lose_a_message(ranks);
  const SmallWork waits(ranks.at(1), Verb::recv, 0);
  give_up(false);
  const Deadline deadline = Deadline::in(seconds(10));
  while (ranks.at(1).failure().ok() && !deadline.passed()) (void)ranks.at(1).progress(seconds(1));
  const Failure& failure = ranks.at(1).failure().failure();
  INFO(ranks.at(1).failure().text());
  CHECK(ranks.at(1).failure().code() == Code::peer_lost);
  CHECK(failure.peer == 0);
}

TEST_CASE("a way is tried once in a while, and no more, while a peer is only late") {
  const FakeVerbs fabric;
  ThreeRanks ranks;
  const SmallWork waits(ranks.at(1), Verb::recv, 0);
  const auto before = fabric.counts().requests;
  const Deadline late = Deadline::in(std::chrono::milliseconds(2500));
  while (!late.passed()) REQUIRE(ranks.at(1).progress(std::chrono::milliseconds(50)).ok());
  CHECK(fabric.counts().requests - before >= 1);
  CHECK(fabric.counts().requests - before <= 2);
  const SmallWork comes(ranks.at(0), Verb::send, 1);
  finish(ranks.at(1), waits);
  finish(ranks.at(0), comes);  // before its completion goes
}

TEST_CASE("a sender whose window never opens, as word of it is lost, ends") {
  const FakeVerbs fabric;
  ThreeRanks ranks;
  std::deque<SmallWork> sends, receives;
  for (std::uint32_t i = 0; i < kEagerWindow; ++i) sends.emplace_back(ranks.at(0), Verb::send, 1);
  finish(ranks.at(0), sends.back());
  const SmallWork waits(ranks.at(0), Verb::send, 1);
  keeps = true;
  for (std::uint32_t i = 0; i < kEagerWindow; ++i) receives.emplace_back(ranks.at(1), Verb::recv, 0);
  finish(ranks.at(1), receives.back());
  keeps = false;
  REQUIRE_FALSE(taken.empty());
  const SmallWork other(ranks.at(1), Verb::recv, 2), third(ranks.at(2), Verb::recv, 0);
  give_up(true);
  ranks.run_until_all_fail();
  for (Rank rank = 0; rank < 3; ++rank) CHECK(ranks.at(rank).failure().code() == Code::peer_lost);
  for (Rank rank = 0; rank < 3; ++rank) ranks.at(rank).abort(Code::aborted);
}

}  // namespace
}  // namespace rondel::verbs::test
