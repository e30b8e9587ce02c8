// SPDX-License-Identifier: Apache-2.0
// What the device is asked to do: doorbells, completions, inline data.
#include <catch2/catch.hpp>
#include <deque>

#include "tests/transports/verbs/world.h"

namespace rondel::verbs::test {
namespace {

// Posts `works` receives on rank 1, then as many sends on rank 0 in one batch, and finishes them.
void exchange_batch(PairOfRanks& ranks, std::size_t works, std::size_t bytes) {
  Buffer out(ranks.zero(), works * bytes);
  Buffer in(ranks.one(), works * bytes);
  std::deque<Slice> slices;
  std::vector<Work> sends;
  std::vector<Work> receives;
  Completion done;
  done.arm(static_cast<std::uint32_t>(2 * works));
  for (std::size_t i = 0; i < works; ++i) {
    slices.push_back({out.region.get(), i * bytes, bytes});
    sends.push_back({.verb = Verb::send, .peer = 1, .local = {&slices.back(), 1}, .done = &done});
    slices.push_back({in.region.get(), i * bytes, bytes});
    receives.push_back({.verb = Verb::recv, .peer = 0, .local = {&slices.back(), 1}, .done = &done});
  }
  REQUIRE(ranks.one().post(receives, {}).ok());
  REQUIRE(ranks.zero().progress(std::chrono::nanoseconds::zero()).ok());  // takes the credits
  REQUIRE(ranks.zero().post(sends, {}).ok());
  for (int turns = 0; !done.done() && turns < 1000; ++turns) {
    REQUIRE(ranks.zero().progress(std::chrono::nanoseconds::zero()).ok());
    REQUIRE(ranks.one().progress(std::chrono::nanoseconds::zero()).ok());
  }
  REQUIRE(done.done());
}

TEST_CASE("a batch is one list of requests with one doorbell, and one completion") {
  const FakeVerbs fabric;
  PairOfRanks ranks;
  const auto before = fabric.counts();
  exchange_batch(ranks, 8, 4096);
  const auto after = fabric.counts();
  CHECK(after.requests - before.requests == 16);  // 8 credits, 8 writes
  CHECK(after.doorbells - before.doorbells == 2);
  CHECK(after.signalled - before.signalled == 1);
}

TEST_CASE("an endpoint counts what it asks of the device as the device does") {
  const FakeVerbs fabric;
  PairOfRanks ranks;
  const auto sum = [&ranks](std::string_view name) {
    std::uint64_t value = 0;
    for (const Endpoint* endpoint : {&ranks.zero(), &ranks.one()})
      for (const Counter& counter : endpoint->counters())
        if (counter.name == name) value += counter.value;
    return value;
  };
  exchange_batch(ranks, 8, 4096);
  CHECK(ranks.send(3'000'001) == "");
  const auto counted = fabric.counts();
  CHECK(sum("work_requests") == counted.requests);
  CHECK(sum("signalled") == counted.signalled);
  CHECK(sum("doorbells") == counted.doorbells + counted.receive_doorbells);
  CHECK(sum("receives") == counted.receives);
  CHECK(sum("staged_bytes") == 0);
}

TEST_CASE("small payload and single credits are inline") {
  const FakeVerbs fabric;
  PairOfRanks ranks;
  const auto before = fabric.counts();
  exchange_batch(ranks, 1, 64);
  const auto middle = fabric.counts();
  CHECK(middle.inlined - before.inlined == 1);
  exchange_batch(ranks, 1, 4096);
  CHECK(fabric.counts().inlined - middle.inlined == 1);
}

TEST_CASE("who only receives asks for one completion in sixteen, and room is given back for ever") {
  const FakeVerbs fabric;
  PairOfRanks ranks;
  for (int i = 0; i < 600; ++i) exchange_batch(ranks, 1, 1000);  // a send queue holds 192
  const auto counts = fabric.counts();
  CHECK(counts.requests == 1200);
  CHECK(counts.signalled <= 600 + 600 / 16 + 1);
}

TEST_CASE("messages are no longer than the device allows") {
  const FakeVerbs fabric({FakeDevice{.max_message_bytes = 4096}});
  PairOfRanks ranks;
  CHECK(ranks.send(3'000'001) == "");  // 733 writes: more than a send queue holds at once
  CHECK(fabric.counts().written_bytes == 3'000'001);
}

TEST_CASE("a device that takes one slice for each request will do") {
  const FakeVerbs fabric({FakeDevice{.max_sge = 1}});
  PairOfRanks ranks;
  Buffer out(ranks.zero(), 1000);
  Buffer in(ranks.one(), 1000);
  for (std::size_t i = 0; i < 1000; ++i) out.bytes[i] = static_cast<std::byte>(i * 7);
  std::vector<Slice> from;
  for (std::size_t i = 0; i < 25; ++i) from.push_back({out.region.get(), i * 40, 40});
  const Slice to = in.all();
  Completion done;
  done.arm(2);
  const Work send{.verb = Verb::send, .peer = 1, .local = from, .done = &done};
  const Work recv{.verb = Verb::recv, .peer = 0, .local = {&to, 1}, .done = &done};
  REQUIRE(ranks.one().post({&recv, 1}, {}).ok());
  REQUIRE(ranks.zero().post({&send, 1}, {}).ok());
  for (int turns = 0; !done.done() && turns < 1000; ++turns) {
    REQUIRE(ranks.zero().progress(std::chrono::nanoseconds::zero()).ok());
    REQUIRE(ranks.one().progress(std::chrono::nanoseconds::zero()).ok());
  }
  CHECK(in.bytes == out.bytes);
}

TEST_CASE("nothing is left when the endpoints have gone") {
  const FakeVerbs fabric;
  {
    PairOfRanks ranks;
    exchange_batch(ranks, 2, 100);
  }
  CHECK(fabric.objects() == 0);
}

}  // namespace
}  // namespace rondel::verbs::test
