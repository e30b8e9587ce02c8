// SPDX-License-Identifier: Apache-2.0
// Links of several queue pairs: what comes over one may be ahead of what another still carries, and works end
// in their order all the same.
#include <poll.h>

#include <algorithm>
#include <atomic>
#include <catch2/catch.hpp>
#include <cerrno>
#include <deque>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <set>
#include <vector>

#include "tests/support/fake_verbs_fabric.h"
#include "tests/support/seed.h"
#include "tests/transports/verbs/world.h"
#include "transports/verbs/frame.h"

namespace rondel::verbs::test {
namespace {

namespace fake = rondel::test::fake;
using rondel::test::Random;

constexpr std::chrono::nanoseconds kNoWait = std::chrono::nanoseconds::zero();
constexpr std::size_t kSmall = 8, kLarge = 5000;

/// A request that a device has taken and not carried out.
struct Waiting {
  ibv_send_wr request;
  std::vector<ibv_sge> slices;
};
/// By queue pair; each keeps its order. Empty while `holds` is false.
std::map<ibv_qp*, std::deque<Waiting>> waiting;
bool holds = false;
std::set<ibv_qp*> used;
std::atomic<int> pairs_left = 0;  // that can be made; both ranks connect at once

int take(ibv_qp* pair, ibv_send_wr* list, ibv_send_wr** bad) {
  used.insert(pair);
  if (!holds) return fake::post_send(pair, list, bad);
  for (; list != nullptr; list = list->next) {
    Waiting one{*list, {list->sg_list, list->sg_list + list->num_sge}};
    one.request.next = nullptr;
    waiting[pair].push_back(std::move(one));
  }
  return 0;
}

ibv_qp* make_few(ibv_pd* domain, ibv_qp_init_attr* attributes) {
  if (pairs_left-- > 0) return FakeVerbs::table().create_qp(domain, attributes);
  errno = ENOMEM;
  return nullptr;
}

void carry_out_next(ibv_qp* pair) {
  std::deque<Waiting>& queue = waiting[pair];
  Waiting one = std::move(queue.front());
  queue.pop_front();
  if (queue.empty()) waiting.erase(pair);
  one.request.sg_list = one.slices.data();
  ibv_send_wr* bad = nullptr;
  REQUIRE(fake::post_send(pair, &one.request, &bad) == 0);
}

void carry_out_all() {
  while (!waiting.empty()) carry_out_next(waiting.begin()->first);
}

class StripedRanks : public PairOfRanks {
 public:
  explicit StripedRanks(int zero_asks = 4, int one_asks = 4)
      : PairOfRanks({asking_for(zero_asks), asking_for(one_asks)}, library()) {
    used.clear();
  }
  ~StripedRanks() { abort(); }
  /// Ends all works. Those that may be under way must do so before their buffers go.
  void abort() {
    holds = false;
    waiting.clear();
    zero().abort(Code::aborted);
    one().abort(Code::aborted);
  }
  void turn() {
    for (Endpoint* endpoint : {&zero(), &one()}) (void)endpoint->progress(kNoWait);
  }
  bool until(const std::function<bool()>& reached) {
    const Deadline deadline = Deadline::in(std::chrono::seconds(10));
    while (!reached() && !deadline.passed()) turn();
    return reached();
  }

 private:
  static Config asking_for(int pairs) {
    Config config;
    config.verbs_qps = pairs;
    return config;
  }
  static VerbsLibrary library() {
    VerbsLibrary library = FakeVerbs::table();
    library.post_send = &take;
    library.create_qp = &make_few;
    if (pairs_left <= 0) pairs_left = 1000;
    return library;
  }
};

void fill(OneWork& work, std::uint64_t seed) {
  Random random(seed);
  for (std::byte& byte : work.buffer.bytes) byte = static_cast<std::byte>(random.next());
}

/// Two works, posted on both sides: the first's piece waits at its queue pair, and at another what is sent
/// for the second.
struct TwoOnTheirWay {
  TwoOnTheirWay(StripedRanks& ranks, std::size_t second_sent, std::size_t second_expected)
      : first_in(ranks.one(), Verb::recv, kLarge),
        second_in(ranks.one(), Verb::recv, second_expected),
        first_out(ranks.zero(), Verb::send, kLarge),
        second_out(ranks.zero(), Verb::send, second_sent) {
    fill(first_out, 1);
    fill(second_out, 2);
    CHECK(ranks.send(kLarge) == "");  // the next piece goes over the second pair
    REQUIRE(first_in.post(ranks.one(), 0).ok());
    REQUIRE(second_in.post(ranks.one(), 0).ok());
    ranks.turn();  // the credits are there
    holds = true;
    REQUIRE(first_out.post(ranks.zero(), 1).ok());
    REQUIRE(second_out.post(ranks.zero(), 1).ok());
    ranks.turn();
    REQUIRE(waiting.size() == 2);
  }
  /// Only what goes as a message arrives.
  static void carry_out_message(StripedRanks& ranks) {
    for (const auto& [pair, requests] : std::map(waiting))
      if (requests.front().request.opcode == IBV_WR_SEND) carry_out_next(pair);
    for (int i = 0; i < 3; ++i) ranks.turn();
  }
  OneWork first_in, second_in, first_out, second_out;
};

TEST_CASE("works end in their order and hold their bytes, whichever queue pair is ahead") {
  Random random(rondel::test::test_seed());
  const FakeVerbs fabric;
  StripedRanks ranks;
  holds = true;
  constexpr std::size_t kLengths[] = {0, kSmall, kEagerBytes, kEagerBytes + 1, kLarge, 300'000};
  for (int round = 0; round < 40; ++round) {
    std::deque<OneWork> sends, receives;
    const std::size_t works = 1 + random.below(kMaxInFlight);
    std::size_t posted_sends = 0, posted_receives = 0;
    for (std::size_t i = 0; i < works; ++i) {
      const std::size_t bytes = kLengths[random.below(std::size(kLengths))];
      const Label label{{i, bytes}};
      sends.emplace_back(ranks.zero(), Verb::send, bytes, label);
      fill(sends.back(), random.next());
      const bool folds = bytes % sizeof(std::int32_t) == 0 && random.happens(0.5);
      receives.emplace_back(ranks.one(), folds ? Verb::recv_reduce : Verb::recv, bytes, label);
      receives.back().work.reduction = {.type = DataType::int32, .op = ReduceOp::bit_or};
    }
    const auto all_done = [&] {
      const auto done = [](const OneWork& work) { return work.done.done(); };
      return std::all_of(sends.begin(), sends.end(), done) &&
             std::all_of(receives.begin(), receives.end(), done);
    };
    const Deadline deadline = Deadline::in(std::chrono::seconds(20));
    while (!all_done() && !deadline.passed()) {
      if (posted_sends < works && random.happens(0.3))
        REQUIRE(sends[posted_sends++].post(ranks.zero(), 1).ok());
      if (posted_receives < works && random.happens(0.3))
        REQUIRE(receives[posted_receives++].post(ranks.one(), 0).ok());
      if (!waiting.empty() && random.happens(0.7))
        carry_out_next(
            std::next(waiting.begin(), static_cast<std::ptrdiff_t>(random.below(waiting.size())))->first);
      if (random.happens(0.5)) ranks.turn();
      for (std::size_t i = 1; i < works; ++i)
        REQUIRE((!receives[i].done.done() || receives[i - 1].done.done()));
    }
    INFO(ranks.zero().failure().text() << ranks.one().failure().text());
    REQUIRE(all_done());
    for (std::size_t i = 0; i < works; ++i) {
      CHECK(receives[i].done.code() == Code::ok);
      CHECK(receives[i].buffer.bytes == sends[i].buffer.bytes);
    }
  }
  CHECK(used.size() == 5);  // four that write, and the first of the other side, for credits
}

TEST_CASE("a message waits for the piece of the work before it, which another queue pair carries") {
  const FakeVerbs fabric;
  StripedRanks ranks(2, 2);
  const TwoOnTheirWay works(ranks, kSmall, kSmall);
  TwoOnTheirWay::carry_out_message(ranks);
  CHECK_FALSE(works.second_in.done.done());
  CHECK_FALSE(works.first_in.done.done());
  CHECK(ranks.one().failure().ok());
  carry_out_all();
  REQUIRE(ranks.until([&] { return works.second_in.done.done() && works.first_in.done.done(); }));
  CHECK(works.second_in.buffer.bytes == works.second_out.buffer.bytes);
  CHECK(works.first_in.buffer.bytes == works.first_out.buffer.bytes);
  holds = false;
  CHECK(ranks.until([&] { return works.second_out.done.done() && works.first_out.done.done(); }));
}

TEST_CASE("a refusal waits for the piece of the work before it, and then shows both sides") {
  const FakeVerbs fabric;
  StripedRanks ranks(2, 2);
  const TwoOnTheirWay works(ranks, kLarge + 2, kLarge + 1);
  TwoOnTheirWay::carry_out_message(ranks);
  CHECK(ranks.one().failure().ok());
  carry_out_all();
  REQUIRE(ranks.until([&] { return !ranks.one().failure().ok(); }));
  CHECK(works.first_in.done.code() == Code::ok);
  CHECK(ranks.one().failure().code() == Code::mismatch);
  const auto mismatch = ranks.one().mismatch();
  REQUIRE(mismatch);
  CHECK(mismatch->my_bytes == kLarge + 1);
  CHECK(mismatch->their_bytes == kLarge + 2);
  ranks.abort();
}

TEST_CASE("of two ranks' numbers of queue pairs the smaller counts, and of what a device has, all") {
  struct Case {
    int zero_asks, one_asks, can_be_made;
    std::size_t used;
  };
  // Rank 0 writes over all; of rank 1 only the first sends, credits.
  for (const Case c : {Case{4, 2, 1000, 2}, Case{2, 4, 1000, 2}, Case{1, 8, 1000, 1}, Case{8, 8, 1000, 8}}) {
    INFO(c.zero_asks << " and " << c.one_asks);
    const FakeVerbs fabric;
    StripedRanks ranks(c.zero_asks, c.one_asks);
    for (int i = 0; i < 16; ++i) CHECK(ranks.send(kLarge) == "");
    CHECK(used.size() == c.used + 1);
  }
  const FakeVerbs fabric;
  pairs_left = 5;
  StripedRanks ranks(4, 4);
  for (int i = 0; i < 16; ++i) CHECK(ranks.send(kLarge) == "");
  CHECK(used.size() < 5);
  CHECK(used.size() > 1);
  pairs_left = 0;
}

TEST_CASE("completion queues that are too short for all queue pairs have fewer of them, not fewer peers") {
  // For one peer: 4 pairs take 768 entries, 3 take 576, 2 take 384.
  for (const auto& [entries, pairs] : {std::pair{768, 4U}, {767, 3U}, {576, 3U}, {384, 2U}, {300, 1U}}) {
    INFO(entries);
    const FakeVerbs fabric({FakeDevice{.max_completions = entries}});
    StripedRanks ranks;
    for (int i = 0; i < 16; ++i) CHECK(ranks.send(kLarge) == "");
    CHECK(used.size() == pairs + 1);
  }
}

TEST_CASE("batches in both directions end well, whichever queue pair's completions come first") {
  const std::uint64_t seed = rondel::test::test_seed();
  FakeVerbs fabric;
  StripedRanks ranks(8, 8);
  fabric.shuffle_pairs(seed);
  Random random(seed);
  constexpr std::size_t kLengths[] = {0, kSmall, kLarge, 700'000};
  for (int round = 0; round < 100; ++round) {
    std::deque<OneWork> works;
    for (std::size_t i = 0; i < kMaxInFlight; ++i) {
      const std::size_t bytes = kLengths[random.below(std::size(kLengths))];
      for (const Rank from : {0, 1}) {
        Endpoint& source = from == 0 ? ranks.zero() : ranks.one();
        Endpoint& target = from == 0 ? ranks.one() : ranks.zero();
        fill(works.emplace_back(source, Verb::send, bytes), random.next());
        REQUIRE(works.back().post(source, 1 - from).ok());
        works.emplace_back(target, random.happens(0.5) ? Verb::recv : Verb::recv_reduce, bytes);
        works.back().work.reduction = {.type = DataType::uint8, .op = ReduceOp::bit_or};
        REQUIRE(works.back().post(target, from).ok());
      }
    }
    REQUIRE(ranks.until([&] {
      return std::all_of(works.begin(), works.end(), [](const OneWork& work) { return work.done.done(); });
    }));
    for (std::size_t i = 0; i < works.size(); i += 2) {
      REQUIRE(works[i + 1].done.code() == Code::ok);
      REQUIRE(works[i + 1].buffer.bytes == works[i].buffer.bytes);
    }
  }
}

TEST_CASE("who waits for a piece while a message of a later work is here may sleep, and polls nothing") {
  const FakeVerbs fabric;
  StripedRanks ranks(2, 2);
  const TwoOnTheirWay works(ranks, kSmall, kSmall);
  TwoOnTheirWay::carry_out_message(ranks);
  pollfd readable{ranks.one().wait_descriptor(), POLLIN, 0};
  CHECK(::poll(&readable, 1, 0) == 0);
  carry_out_all();
  CHECK(::poll(&readable, 1, 1000) == 1);
  holds = false;
  REQUIRE(ranks.until([&] {
    return works.second_in.done.done() && works.first_in.done.done() && works.first_out.done.done() &&
           works.second_out.done.done();
  }));
}

TEST_CASE("one of several queue pairs that breaks is the end of the link, and names the peer") {
  const FakeVerbs fabric;
  StripedRanks ranks(2, 2);
  CHECK(ranks.send(kLarge) == "");
  OneWork in(ranks.one(), Verb::recv, kLarge), out(ranks.zero(), Verb::send, kLarge);
  REQUIRE(in.post(ranks.one(), 0).ok());
  ranks.turn();
  holds = true;
  REQUIRE(out.post(ranks.zero(), 1).ok());
  ranks.turn();
  REQUIRE(waiting.size() == 1);
  {
    const std::scoped_lock lock(fake::fabric().mutex);
    fake::fabric().next_status = IBV_WC_RETRY_EXC_ERR;
  }
  carry_out_all();
  holds = false;
  REQUIRE(ranks.until([&] { return !ranks.zero().failure().ok() && !ranks.one().failure().ok(); }));
  CHECK(ranks.zero().failure().code() == Code::peer_lost);
  CHECK(ranks.zero().failure().failure().peer == 1);
  CHECK(ranks.one().failure().code() == Code::peer_lost);
}

}  // namespace
}  // namespace rondel::verbs::test
