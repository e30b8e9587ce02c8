// SPDX-License-Identifier: Apache-2.0
// Collectives by loads and stores: what they have that messages do not.
#include <poll.h>

#include <algorithm>
#include <catch2/catch.hpp>
#include <chrono>
#include <numeric>
#include <thread>

#include "lib/arena.h"
#include "tests/ring/ring_world.h"
#include "tests/support/seed.h"

namespace rondel::test {
namespace {

using std::chrono::milliseconds;
using std::chrono::seconds;

/// Floats that all ranks can reach.
class Reachable {
 public:
  explicit Reachable(std::size_t count)
      : arena_(Arena::create(0).value()), floats_(reinterpret_cast<float*>(memory(count)), count) {}
  std::span<float> floats() { return floats_; }

 private:
  std::byte* memory(std::size_t count) { return arena_->allocate(count * sizeof(float)).value().data; }

  std::unique_ptr<Arena> arena_;
  std::span<float> floats_;
};

CollectiveRequest sum_of(std::span<float> data) {
  CollectiveRequest request;
  request.kind = CollectiveKind::all_reduce;
  request.input = request.output = data.data();
  request.count = data.size();
  return request;
}

}  // namespace

TEST_CASE("many operations of sizes that change the way they go, one after another and at random") {
  const std::uint64_t seed = test_seed();
  RingWorld world(4);
  CHECK(world.run([seed](RankTest& test, Communicator& communicator) {
    Random random(seed);  // the same on every rank
    Random own(seed + static_cast<std::uint64_t>(test.rank()) + 1);
    Reachable memory(100'000);
    std::vector<float> heap(100'000);
    for (int i = 0; i < 300; ++i) {
      const std::size_t count = 1 + random.below(random.below(2) == 0 ? 40 : 100'000);
      const bool kind = random.below(8) == 0;
      const bool reachable = own.below(4) != 0;  // each rank for itself: then all must decline alike
      auto data = (reachable ? memory.floats() : std::span(heap)).first(count);
      std::iota(data.begin(), data.end(), static_cast<float>(test.rank()));
      CollectiveRequest request = sum_of(data);
      if (kind) request.kind = CollectiveKind::reduce;  // by messages
      test.require_ok(communicator.run(request), "operation " + std::to_string(i));
      if (kind && test.rank() != 0) continue;
      bool right = true;
      for (std::size_t k = 0; k < count; ++k) right = right && data[k] == 4.0F * static_cast<float>(k) + 6.0F;
      test.require(right, "the sum of operation " + std::to_string(i));
    }
  }) == "");
}

TEST_CASE("contributions are folded in the order of ranks, whatever the size and wherever they lie") {
  RingWorld world(3);
  for (const bool reachable : {true, false})
    for (const std::size_t count :
         {std::size_t{1}, std::size_t{700}, std::size_t{50'000}, std::size_t{1'000'003}})
      CHECK(world.run([count, reachable](RankTest& test, Communicator& communicator) {
        Reachable memory(reachable ? count : 0);
        std::vector<float> heap(reachable ? 0 : count);
        const auto data = reachable ? memory.floats() : std::span(heap);
        const float given[] = {1e8F, 1.0F, -1e8F};
        std::fill(data.begin(), data.end(), given[test.rank()]);
        test.require_ok(communicator.run(sum_of(data)), "allreduce");
        const float wanted = (1e8F + 1.0F) + -1e8F;
        for (const float found : data) test.require(found == wanted, std::to_string(found));
      }) == "");
}

TEST_CASE(
    "sums of memory that is out of reach: types, operators, sizes around a block, in and out of place") {
  const std::uint64_t seed = test_seed();
  const Rank ranks = GENERATE(2, 3, 5);
  RingWorld world(ranks);
  CHECK(world.run([seed, ranks](RankTest& test, Communicator& communicator) {
    Random random(seed);  // the same on every rank
    for (int i = 0; i < 60; ++i) {
      // Whole blocks for each rank, and some elements more or fewer; some ranks may have nothing to sum.
      const std::size_t blocks = random.below(12) * static_cast<std::size_t>(ranks) * 16'384;
      const std::size_t count = blocks + 5000 + random.below(40) - 20;
      const bool in_place = random.below(2) == 0;
      const auto op = random.below(2) == 0 ? ReduceOp::sum : ReduceOp::max;
      std::vector<std::int32_t> in(count), out(in_place ? 0 : count, -1);
      const auto element = [i](Rank rank, std::size_t k) {
        return static_cast<std::int32_t>((static_cast<std::size_t>(rank) + 1) * (k % 1009) + k / 7) + i;
      };
      for (std::size_t k = 0; k < count; ++k) in[k] = element(test.rank(), k);
      CollectiveRequest request;
      request.kind = CollectiveKind::all_reduce;
      request.input = in.data();
      request.output = in_place ? in.data() : out.data();
      request.count = count;
      request.type = DataType::int32;
      request.op = op;
      test.require_ok(communicator.run(request), "operation " + std::to_string(i));
      const auto& found = in_place ? in : out;
      bool right = true;
      for (std::size_t k = 0; k < count; ++k) {
        std::int32_t wanted = element(0, k);
        for (Rank rank = 1; rank < ranks; ++rank)
          wanted = op == ReduceOp::sum ? wanted + element(rank, k) : std::max(wanted, element(rank, k));
        right = right && found[k] == wanted;
      }
      test.require(right, "the result of operation " + std::to_string(i));
      for (std::size_t k = 0; !in_place && k < count; ++k)
        test.require(in[k] == element(test.rank(), k), "the input is untouched");
    }
  }) == "");
}

TEST_CASE("a rank that leaves as soon as it has its sums keeps nobody from theirs") {
  for (int round = 0; round < 20; ++round) {
    RingWorld world(3);
    CHECK(world.run([round](RankTest& test, Communicator& communicator) {
      std::vector<float> heap(100'000 + static_cast<std::size_t>(round) * 10'000, 1.0F);
      test.require_ok(communicator.run(sum_of(heap)), "allreduce");
      test.expect(heap.front() == 3.0F && heap.back() == 3.0F, "sum");
    }) == "");
  }
}

TEST_CASE("a large sum of memory that all can reach moves each byte once") {
  RingWorld world(4);
  CHECK(world.run([](RankTest& test, Communicator& communicator) {
    Reachable memory(1 << 20);
    test.require_ok(communicator.run(sum_of(memory.floats())), "connects");
    const std::uint64_t before = communicator.bytes_received();
    test.require_ok(communicator.run(sum_of(memory.floats())), "allreduce");
    // Of its quarter a rank loads what the three others gave.
    test.expect_equal(communicator.bytes_received() - before, std::uint64_t{3} << 20U, "bytes loaded");
  }) == "");
}

TEST_CASE(
    "an all-to-all of memory that all can reach moves each byte once, unless its counts differ by rank") {
  RingWorld world(4);
  CHECK(world.run([](RankTest& test, Communicator& communicator) {
    static constexpr std::size_t kPart = 100'000;
    Reachable from(4 * kPart), to(4 * kPart);
    const auto rank = static_cast<std::size_t>(test.rank());
    for (std::size_t i = 0; i < 4 * kPart; ++i) from.floats()[i] = static_cast<float>(i * 4 + rank);
    CollectiveRequest request;
    request.kind = CollectiveKind::all_to_all;
    request.input = from.floats().data();
    request.output = to.floats().data();
    request.count = kPart;
    for (int i = 0; i < 2; ++i) {
      const std::uint64_t before = communicator.bytes_received();
      test.require_ok(communicator.run(request), "alltoall");
      if (i == 1) test.expect_equal(communicator.bytes_received() - before, 3 * kPart * 4, "bytes loaded");
    }
    const auto check = [&](const std::string& what) {
      for (std::size_t i = 0; i < 4 * kPart; i += 7)
        test.require(to.floats()[i] == static_cast<float>((rank * kPart + i % kPart) * 4 + i / kPart), what);
      std::fill(to.floats().begin(), to.floats().end(), 0.0F);
    };
    check("equal counts");
    const std::vector<std::uint64_t> counts(4, kPart);
    request.count = 0;
    request.counts = request.receive_counts = counts;
    test.require_ok(communicator.run(request), "alltoall with counts");
    check("counts by rank");
  }) == "");
}

TEST_CASE("a rank that calls something else by messages is a mismatch for those who wait for it") {
  RingWorld world(3);
  Meeting meeting(3);
  CHECK(world.run([&meeting](RankTest& test, Communicator& communicator) {
    Reachable memory(10);
    test.require_ok(communicator.run(sum_of(memory.floats())), "opens the boards");
    // One that is still in the first would be told of the second's failure there.
    test.require(meeting.arrive_and_wait(Deadline::in(seconds(20))), "all have done it");
    CollectiveRequest request = sum_of(memory.floats());
    if (test.rank() == 1) request.kind = CollectiveKind::reduce;
    const auto begun = Deadline::Clock::now();
    const Status status = communicator.run(request);
    test.expect(Deadline::Clock::now() - begun < seconds(5), "at once");
    test.expect_equal(status.code(), Code::mismatch, status.text());
    test.expect(status.text().find("allreduce #2") != std::string::npos &&
                    status.text().find("reduce #2") != std::string::npos,
                "both are named: " + status.text());
  }) == "");
}

TEST_CASE("abort in the middle of large sums: no peer touches the memory afterwards") {
  const std::uint64_t seed = test_seed();
  for (std::uint64_t round = 0; round < 10; ++round) {
    RingWorld world(3);
    Meeting meeting(3);
    CHECK(world.run([&meeting, seed, round](RankTest& test, Communicator& communicator) {
      Random random(seed + round);
      Reachable memory(2 << 20);
      test.require_ok(communicator.run(sum_of(memory.floats())), "first");
      test.require(meeting.arrive_and_wait(Deadline::in(seconds(20))), "all have done it");
      const auto until = milliseconds(random.below(4));
      std::thread aborter;
      if (test.rank() == 2)
        aborter = std::thread([&communicator, until] {
          std::this_thread::sleep_for(until);
          communicator.abort("enough");
        });
      Status status;
      for (int i = 0; i < 10'000 && status.ok(); ++i) status = communicator.run(sum_of(memory.floats()));
      if (aborter.joinable()) aborter.join();
      test.expect(!status.ok(), "the operations end");
      std::fill(memory.floats().begin(), memory.floats().end(), 7.0F);
      const auto look_until = Deadline::in(milliseconds(20));
      while (!look_until.passed()) std::this_thread::yield();
      for (const float found : memory.floats()) test.require(found == 7.0F, "nobody stores to it any more");
    }) == "");
  }
}

TEST_CASE("a send or a receive that the other side has not come to holds nothing else up") {
  RingWorld world(2);
  CHECK(world.run([](RankTest& test, Communicator& communicator) {
    Reachable memory(1000);
    float parcel = 1;
    CollectiveRequest pair;
    pair.root = 1 - test.rank();
    pair.count = 1;
    const bool early = test.rank() == 0;
    pair.kind = early ? CollectiveKind::send : CollectiveKind::recv;
    pair.input = pair.output = &parcel;
    const auto begun = Deadline::Clock::now();
    Result<OperationId> operation = early ? communicator.start(pair) : Result<OperationId>(OperationId{0});
    test.require_ok(operation, "start");
    for (int i = 0; i < 10; ++i) test.require_ok(communicator.run(sum_of(memory.floats())), "allreduce");
    if (early)
      test.require_ok(communicator.wait(*operation, Deadline::in(seconds(20))), "send");
    else
      test.require_ok(communicator.run(pair), "receive");
    test.expect(Deadline::Clock::now() - begun < seconds(8), "not held up until a deadline");
  }) == "");
}

TEST_CASE("the wait descriptor turns readable when the others have come") {
  RingWorld world(2);
  CHECK(world.run([](RankTest& test, Communicator& communicator) {
    Reachable memory(100'000);
    std::vector<float> heap(400'000);
    for (int i = 0; i < 200; ++i) {
      const auto operation = communicator.start(sum_of(i % 2 == 0 ? memory.floats() : std::span(heap)));
      test.require_ok(operation, "start");
      for (;;) {
        test.require_ok(communicator.progress(std::chrono::nanoseconds::zero()), "progress");
        if (communicator.done(*operation)) break;
        const auto descriptor = communicator.wait_descriptor();
        test.require_ok(descriptor, "descriptor");
        pollfd ready{*descriptor, POLLIN, 0};
        test.require(::poll(&ready, 1, 5000) == 1, "readable within five seconds");
      }
      test.require_ok(communicator.wait(*operation, Deadline::in(seconds(1))), "wait");
    }
  }) == "");
}

}  // namespace rondel::test
