// SPDX-License-Identifier: Apache-2.0
#include "ring/communicator.h"

#include <fmt/format.h>

#include <catch2/catch.hpp>
#include <cstring>
#include <mutex>
#include <numeric>
#include <random>

#include "tests/ring/ring_world.h"
#include "tests/support/reference.h"

namespace rondel::test {
namespace {

using Kind = CollectiveKind;

constexpr Kind kCollectives[] = {Kind::all_reduce, Kind::reduce_scatter, Kind::all_gather, Kind::broadcast,
                                 Kind::reduce,     Kind::gather,         Kind::scatter,    Kind::all_to_all};

bool has_in_place_form(Kind kind) { return kind != Kind::all_to_all; }

TEST_CASE("every collective gives the reference's answer, in and out of place, for sizes 1 to 6") {
  for (Rank size = 1; size <= 6; ++size) {
    RingWorld world(size);
    CHECK(world.run([](RankTest& test, Communicator& communicator) {
      for (const Kind kind : kCollectives)
        for (const std::uint64_t count : {0U, 1U, 7U, 1000U})
          for (const bool in_place : {false, true}) {
            if (in_place && !has_in_place_form(kind)) continue;
            Trial trial;
            trial.kind = kind;
            trial.count = count;
            trial.in_place = in_place;
            trial.root = static_cast<Rank>(count % static_cast<std::uint64_t>(communicator.size()));
            try_out(test, communicator, trial);
          }
    }) == "");
  }
}

TEST_CASE("every type and operator that go together, small and large") {
  RingWorld world(3);
  CHECK(world.run([](RankTest& test, Communicator& communicator) {
    for (std::size_t t = 0; t < kDataTypeCount; ++t)
      for (std::size_t o = 0; o < kReduceOpCount; ++o)
        for (const Kind kind : {Kind::all_reduce, Kind::reduce_scatter, Kind::reduce})
          for (const std::uint64_t count : {5U, 5'000U}) {
            Trial trial;
            trial.kind = kind;
            trial.type = static_cast<DataType>(t);
            trial.op = static_cast<ReduceOp>(o);
            trial.count = count;
            trial.in_place = (t + o) % 2 == 0;
            if (supports(trial.type, trial.op)) try_out(test, communicator, trial);
          }
  }) == "");
}

TEST_CASE("every algorithm that the user may ask for, large enough for many segments") {
  for (const char* algorithm : {"ring", "circulant", "one_shot", "recursive_doubling"})
    for (const Rank size : {2, 4, 5}) {
      RingWorld world(size);
      const auto tune = [&](Rank, CommunicatorOptions& options) {
        options.algorithm = algorithm;
        options.segment_bytes = 512;
      };
      INFO(algorithm << " on " << size);
      CHECK(world.run(
                [](RankTest& test, Communicator& communicator) {
                  for (const Kind kind : kCollectives)
                    for (const std::uint64_t count : {3U, 3'001U})
                      for (const ReduceOp op : {ReduceOp::sum, ReduceOp::average}) {
                        Trial trial;
                        trial.kind = kind;
                        trial.count = count;
                        trial.op = op;
                        trial.in_place = has_in_place_form(kind) && count > 3;
                        trial.root = communicator.size() - 1;
                        try_out(test, communicator, trial);
                      }
                },
                tune) == "");
    }
}

TEST_CASE("counts that differ by rank, zeros among them") {
  for (const Rank size : {2, 3, 5}) {
    RingWorld world(size);
    CHECK(world.run([](RankTest& test, Communicator& communicator) {
      for (const Kind kind : {Kind::reduce_scatter, Kind::all_gather, Kind::gather, Kind::scatter})
        for (const std::uint64_t scale : {1U, 3000U})
          for (const bool in_place : {false, true}) {
            Trial trial;
            trial.kind = kind;
            trial.in_place = in_place;
            for (Rank rank = 0; rank < communicator.size(); ++rank)
              trial.counts.push_back(static_cast<std::uint64_t>((rank + 1) % 3) * scale);
            try_out(test, communicator, trial);
          }
    }) == "");
  }
}

TEST_CASE("alltoall with counts that differ by pair; a pair that disagrees is a mismatch") {
  RingWorld world(3);
  Meeting meeting(3);
  CHECK(world.run([&](RankTest& test, Communicator& communicator) {
    const auto count = [](Rank from, Rank to) { return static_cast<std::uint64_t>((from * 2 + to) % 4); };
    std::vector<std::uint64_t> sent, received;
    std::vector<std::int32_t> input, output, wanted;
    for (Rank peer = 0; peer < 3; ++peer) {
      sent.push_back(count(communicator.rank(), peer));
      received.push_back(count(peer, communicator.rank()));
      for (std::uint64_t i = 0; i < sent.back(); ++i)
        input.push_back(communicator.rank() * 100 + peer * 10 + static_cast<std::int32_t>(i));
      for (std::uint64_t i = 0; i < received.back(); ++i)
        wanted.push_back(peer * 100 + communicator.rank() * 10 + static_cast<std::int32_t>(i));
    }
    output.resize(wanted.size(), -1);
    CollectiveRequest request;
    request.kind = Kind::all_to_all;
    request.type = DataType::int32;
    request.input = input.data();
    request.output = output.data();
    request.counts = sent;
    request.receive_counts = received;
    test.require_ok(communicator.run(request), "alltoall");
    test.expect(output == wanted, "alltoall data");
    test.require(meeting.arrive_and_wait(Deadline::in(std::chrono::seconds(20))), "all have done it");
    if (communicator.rank() == 2) ++received[0];
    output.assign(16, -1);
    request.output = output.data();
    Status failed = communicator.run(request);
    // A rank whose own pairs agree may be done before it hears of the others.
    if (failed.ok()) failed = communicator.run({.kind = Kind::barrier});
    test.expect_equal(failed.code(), Code::mismatch, "code");
    if (communicator.rank() == 2)
      test.expect(output == std::vector<std::int32_t>(16, -1), "no data was written");
  }) == "");
}

TEST_CASE("floating-point sums have the same bits on every rank") {
  for (const char* algorithm : {"", "ring", "circulant", "one_shot", "recursive_doubling"})
    for (const Rank size : {3, 4, 6}) {
      RingWorld world(size);
      std::mutex mutex;
      std::vector<Bytes> results[8];
      const auto tune = [&](Rank, CommunicatorOptions& options) { options.algorithm = algorithm; };
      INFO(algorithm << " on " << size);
      CHECK(world.run(
                [&](RankTest& test, Communicator& communicator) {
                  std::mt19937 random(static_cast<unsigned>(communicator.rank()) + 7);
                  int slot = 0;
                  for (const DataType type :
                       {DataType::float32, DataType::float64, DataType::float16, DataType::bfloat16})
                    for (const ReduceOp op : {ReduceOp::sum, ReduceOp::average}) {
                      Bytes data(3001 * size_of(type));  // any bits at all, NaNs and infinities among them
                      for (std::byte& byte : data) byte = static_cast<std::byte>(random());
                      CollectiveRequest request;
                      request.kind = Kind::all_reduce;
                      request.input = request.output = data.data();
                      request.count = 3001;
                      request.type = type;
                      request.op = op;
                      test.require_ok(communicator.run(request), "allreduce");
                      const std::lock_guard lock(mutex);
                      results[slot++].push_back(data);
                    }
                },
                tune) == "");
      for (const auto& same : results)
        for (const Bytes& bytes : same) CHECK(bytes == same.front());
    }
}

TEST_CASE("one shot and recursive doubling give the same bits, for a power of two circulant too") {
  for (const Rank size : {3, 4, 6, 8}) {
    std::mutex mutex;
    std::vector<Bytes> results;
    for (const char* algorithm : {"one_shot", "recursive_doubling", "circulant"}) {
      if (algorithm == std::string("circulant") && (size & (size - 1)) != 0) continue;
      RingWorld world(size);
      const auto tune = [&](Rank, CommunicatorOptions& options) { options.algorithm = algorithm; };
      CHECK(world.run(
                [&](RankTest& test, Communicator& communicator) {
                  std::mt19937 random(static_cast<unsigned>(communicator.rank()) + 7);
                  std::vector<float> data(1001);
                  for (float& value : data) value = std::uniform_real_distribution<float>(-1, 1)(random);
                  test.require_ok(communicator.run(all_reduce_request(data, data, ReduceOp::average)),
                                  "average");
                  const auto* bytes = reinterpret_cast<const std::byte*>(data.data());
                  const std::lock_guard lock(mutex);
                  results.emplace_back(bytes, bytes + data.size() * sizeof(float));
                },
                tune) == "");
    }
    for (const Bytes& result : results) CHECK(result == results.front());
  }
}

TEST_CASE("an average of equal 16-bit values is that value, and does not overflow on the way") {
  for (const Rank size : {3, 4, 5, 7}) {
    RingWorld world(size);
    CHECK(world.run([](RankTest& test, Communicator& communicator) {
      for (const std::uint64_t count : {1U, 20'000U}) {
        std::vector<std::uint16_t> data(count, 0x74e2);  // float16 20000
        CollectiveRequest request;
        request.kind = Kind::all_reduce;
        request.input = request.output = data.data();
        request.count = count;
        request.type = DataType::float16;
        request.op = ReduceOp::average;
        test.require_ok(communicator.run(request), "average");
        for (const std::uint16_t bits : data)
          if (bits != 0x74e2) return test.note(fmt::format("20000 became {:#x}", bits));
      }
    }) == "");
  }
}

TEST_CASE("one rank needs no store, no member and no transport") {
  CommunicatorOptions options;
  auto communicator = Communicator::create(std::make_shared<Job>(), options);
  REQUIRE(communicator.ok());
  CHECK((*communicator)->transport_name() == "none");
  RankTest test(0, 1);
  test.run([&](RankTest& body) {
    for (const Kind kind : kCollectives)
      for (const bool in_place : {false, true}) {
        Trial trial;
        trial.kind = kind;
        trial.count = 9;
        trial.in_place = in_place && has_in_place_form(kind);
        trial.op = ReduceOp::average;
        try_out(body, **communicator, trial);
      }
  });
  CHECK(all_of(test.failures()) == "");
  CollectiveRequest barrier;
  CHECK((*communicator)->run(barrier).ok());
  auto copy = (*communicator)->duplicate();
  REQUIRE(copy.ok());
  CHECK((*copy)->size() == 1);
  auto id = (*communicator)->start(barrier);
  REQUIRE(id.ok());
  CHECK((*communicator)->wait_descriptor().ok());
  CHECK((*communicator)->wait(*id, Deadline::in(std::chrono::seconds(1))).ok());
}

TEST_CASE("split by colour and key; the parts work at once and beside the whole") {
  RingWorld world(5);
  CHECK(world.run([](RankTest& test, Communicator& communicator) {
    const Rank rank = communicator.rank();
    auto none = communicator.split(rank == 4 ? -1 : rank % 2, -rank);
    test.require_ok(none, "split");
    if (rank == 4) {
      test.expect(*none == nullptr, "no communicator for a negative colour");
    } else {
      Communicator& part = **none;
      test.expect_equal(part.size(), 2, "size");
      test.expect_equal(part.rank(), rank < 2 ? 1 : 0, "rank by falling key");
      std::vector<float> data(3000, static_cast<float>(rank));
      test.require_ok(part.run(all_reduce_request(data, data)), "allreduce");
      test.expect_equal(data.back(), rank % 2 == 0 ? 2.0F : 4.0F, "sum of the part");
    }
    auto copy = communicator.duplicate();
    test.require_ok(copy, "duplicate");
    for (Communicator* each : {copy->get(), &communicator}) {
      std::vector<float> data(10, 1.0F);
      test.require_ok(each->run(all_reduce_request(data, data)), "allreduce");
      test.expect_equal(data.back(), 5.0F, "sum of all");
    }
    auto again = (*copy)->split(0, rank);
    test.require_ok(again, "split of a duplicate");
    test.expect_equal((*again)->rank(), rank, "rank");
  }) == "");
}

TEST_CASE("the same name can be used again, with other sizes") {
  RingWorld world(4);
  CHECK(world.run_bare([&](RankTest& test) {
    auto job = world.make_job(0);
    for (const Rank size : {4, 2, 4, 3}) {
      if (test.rank() >= size) {
        test.require_ok(job->store->add(fmt::format("world/uses/{}", test.rank()), 1), "a use passed by");
        continue;
      }
      CommunicatorOptions options = world.options(test.rank());
      options.size = size;
      auto communicator = Communicator::create(job, options);
      test.require_ok(communicator, "create");
      std::vector<float> data(100, 1.0F);
      test.require_ok((*communicator)->run(all_reduce_request(data, data)), "allreduce");
      test.expect_equal(data.back(), static_cast<float>(size), "sum");
    }
  }) == "");
}

TEST_CASE("bytes sent and received are counted") {
  RingWorld world(2);
  CHECK(world.run(
            [](RankTest& test, Communicator& communicator) {
              const std::uint64_t sent = communicator.bytes_sent(), received = communicator.bytes_received();
              std::vector<float> data(1000, 1.0F);
              test.require_ok(communicator.run(all_reduce_request(data, data)), "first");
              const std::uint64_t first = communicator.bytes_sent() - sent;
              test.require_ok(communicator.run(all_reduce_request(data, data)), "second");
              test.expect_equal(communicator.bytes_sent() - sent - first, std::uint64_t{4000},
                                "the ring's volume");
              test.expect(communicator.bytes_received() - received >= 8000, "received");
            },
            [](Rank, CommunicatorOptions& options) { options.algorithm = "ring"; }) == "");
}

}  // namespace
}  // namespace rondel::test
