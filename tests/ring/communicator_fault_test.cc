// SPDX-License-Identifier: Apache-2.0
// What ranks get to know when they do not agree, when one leaves, and when one never comes.
#include <fmt/format.h>

#include <catch2/catch.hpp>
#include <functional>
#include <mutex>
#include <thread>

#include "ring/communicator.h"
#include "tests/ring/ring_world.h"
#include "tests/support/clocks.h"

namespace rondel::test {
namespace {

using Kind = CollectiveKind;
using Clock = std::chrono::steady_clock;

/// Runs `request_of(rank)` on every rank of `size` and checks that all fail alike, soon, and without touching
/// data.
void all_fail_with_mismatch(Rank size, const std::function<CollectiveRequest(Rank)>& request_of,
                            const std::vector<std::string>& words, std::size_t floats = 4096) {
  RingWorld world(size);
  std::mutex mutex;
  std::vector<std::string> causes;
  Meeting meeting(size);
  CHECK(world.run([&](RankTest& test, Communicator& communicator) {
    std::vector<float> input(floats, 1.0F), output(floats, -1.0F);
    std::vector<float> warm(1, 1.0F);
    test.require_ok(communicator.run(all_reduce_request(warm, warm)), "an operation before");
    test.require(meeting.arrive_and_wait(Deadline::in(std::chrono::seconds(20))), "all have done it");
    CollectiveRequest request = request_of(communicator.rank());
    request.input = input.data();
    request.output = output.data();
    const auto start = Clock::now();
    Status failed = communicator.run(request);
    // A rank whose part ended before the others were found to differ learns it with its next call.
    if (failed.ok()) failed = communicator.run(all_reduce_request(warm, warm));
    test.expect(seconds_since(start) < 3, "within three seconds");
    test.expect_equal(failed.code(), Code::mismatch, "code");
    test.expect(output == std::vector<float>(floats, -1.0F), "no data was written");
    for (const std::string& word : words)
      test.expect(failed.text().find(word) != std::string::npos, failed.text() + " says " + word);
    test.expect_equal(failed.failure().rank, communicator.rank(), "the reporting rank");
    test.expect_equal(communicator.run(request).text(), failed.text(), "every later call fails alike");
    test.expect_equal(communicator.failure().text(), failed.text(), "failure()");
    const std::lock_guard lock(mutex);
    causes.push_back(failed.failure().cause);
  }) == "");
  REQUIRE(causes.size() == static_cast<std::size_t>(size));
  for (const std::string& cause : causes) CHECK(cause == causes.front());
}

CollectiveRequest request_of(Kind kind, std::uint64_t count, ReduceOp op = ReduceOp::sum, Rank root = 0,
                             DataType type = DataType::float32) {
  CollectiveRequest request;
  request.kind = kind;
  request.count = count;
  request.op = op;
  request.root = root;
  request.type = type;
  return request;
}

TEST_CASE("different counts are an error on every rank, and no data is written") {
  for (const Rank size : {2, 3, 5})
    for (const std::uint64_t count : {2U, 3000U})
      all_fail_with_mismatch(
          size, [&](Rank rank) { return request_of(Kind::all_reduce, rank == size - 1 ? count : count - 1); },
          {fmt::format("of {} float32", count), fmt::format("of {} float32", count - 1),
           fmt::format("rank {}", size - 1)});
}

TEST_CASE("large payloads that differ are found before data is written") {
  for (const Rank size : {2, 3, 4})
    all_fail_with_mismatch(
        size, [](Rank rank) { return request_of(Kind::all_reduce, rank == 1 ? 6'000'000 : 5'999'000); },
        {"6000000", "5999000"}, 6'000'000);
}

TEST_CASE("different collectives, operators, types and roots are errors that name both sides") {
  for (const Rank size : {2, 4}) {
    all_fail_with_mismatch(
        size,
        [](Rank rank) {
          return rank == 0 ? request_of(Kind::all_reduce, 16) : request_of(Kind::broadcast, 16);
        },
        {"rank 0 called allreduce #2 of 16 float32 sum", "called broadcast #2 of 16 float32 from rank 0"});
    all_fail_with_mismatch(
        size,
        [](Rank rank) { return request_of(Kind::all_reduce, 16, rank == 1 ? ReduceOp::max : ReduceOp::sum); },
        {"16 float32 sum", "rank 1 called allreduce #2 of 16 float32 max"});
    all_fail_with_mismatch(size,
                           [](Rank rank) {
                             return request_of(Kind::all_reduce, 16, ReduceOp::sum, 0,
                                               rank == 1 ? DataType::int32 : DataType::float32);
                           },
                           {"16 int32 sum", "16 float32 sum"});
    all_fail_with_mismatch(
        size, [](Rank rank) { return request_of(Kind::broadcast, 16, ReduceOp::sum, rank == 1 ? 1 : 0); },
        {"from rank 0", "from rank 1"});
    all_fail_with_mismatch(size,
                           [](Rank rank) {
                             return request_of(rank == 0 ? Kind::barrier : Kind::all_gather,
                                               rank == 0 ? 0 : 16);
                           },
                           {"barrier #2", "allgather #2 of 16 float32"});
    all_fail_with_mismatch(size, [](Rank rank) { return request_of(Kind::all_reduce, rank == 0 ? 0 : 16); },
                           {"allreduce #2 of 0 float32", "allreduce #2 of 16 float32"});
  }
}

TEST_CASE("a split and the all-gather that it is built on are not taken for one another") {
  for (const Rank size : {2, 3, 4}) {
    RingWorld world(size);
    CHECK(world.run([size](RankTest& test, Communicator& communicator) {
      std::vector<std::int64_t> all(static_cast<std::size_t>(size), -1);
      const std::int64_t mine = std::int64_t{1} << 60;
      CollectiveRequest request = request_of(Kind::all_gather, 1, ReduceOp::sum, 0, DataType::int64);
      request.input = &mine;
      request.output = all.data();
      Status failed =
          communicator.rank() == 1 ? communicator.run(request) : communicator.split(0, 0).status();
      test.expect_equal(failed.code(), Code::mismatch, "code");
      test.expect(failed.text().find("called split #1") != std::string::npos, failed.text());
      test.expect(failed.text().find("rank 1 called allgather #1 of 1 int64") != std::string::npos,
                  failed.text());
      test.expect(std::count(all.begin(), all.end(), -1) == size, "no data was written");
    }) == "");
  }
}

TEST_CASE("counts per rank that differ between ranks are a mismatch") {
  const std::vector<std::uint64_t> one{4, 8, 12}, other{8, 4, 12};
  all_fail_with_mismatch(
      3,
      [&](Rank rank) {
        CollectiveRequest request = request_of(Kind::all_gather, 0);
        request.counts = rank == 0 ? one : other;
        return request;
      },
      {"counts per rank"}, 64);
}

TEST_CASE("a send and a recv of different lengths are a mismatch on both") {
  RingWorld world(2);
  CHECK(world.run([](RankTest& test, Communicator& communicator) {
    std::vector<float> data(8, 1.0F);
    CollectiveRequest request = request_of(communicator.rank() == 0 ? Kind::send : Kind::recv, 4);
    request.root = 1 - communicator.rank();
    request.input = request.output = data.data();
    if (communicator.rank() == 1) request.count = 8;
    Status failed = communicator.run(request);
    if (failed.ok()) failed = communicator.run(request_of(Kind::barrier, 0));
    test.expect_equal(failed.code(), Code::mismatch, "code");
    test.expect(failed.text().find("of 4 float32") != std::string::npos, failed.text());
  }) == "");
}

TEST_CASE("wrong arguments start nothing and poison nothing") {
  RingWorld world(2);
  CHECK(world.run([](RankTest& test, Communicator& communicator) {
    std::vector<float> data(16, 1.0F);
    const auto refused = [&](CollectiveRequest request, Code code, std::string_view word) {
      const Status status = communicator.run(request);
      test.expect_equal(status.code(), code, status.text());
      test.expect(status.text().find(word) != std::string::npos, status.text());
      test.expect(!communicator.start(request).ok(), "start refuses it too");
    };
    CollectiveRequest request = all_reduce_request(data, data);
    request.input = nullptr;
    refused(request, Code::invalid_argument, "input buffer is null");
    request = all_reduce_request(data, data);
    request.output = data.data() + 1;
    request.count = 8;
    refused(request, Code::invalid_argument, "overlap");
    request = all_reduce_request(data, data, ReduceOp::bit_xor);
    refused(request, Code::unsupported, "float32 has no bit_xor");
    request = all_reduce_request(data, data);
    request.count = std::uint64_t{1} << 62;
    refused(request, Code::invalid_argument, "2^63");
    request = request_of(Kind::broadcast, 4, ReduceOp::sum, 2);
    request.input = request.output = data.data();
    refused(request, Code::invalid_argument, "root 2 is not among the ranks 0 to 1");
    request = request_of(Kind::send, 4, ReduceOp::sum, communicator.rank());
    request.input = data.data();
    refused(request, Code::invalid_argument, "itself");
    const std::vector<std::uint64_t> counts{1, 2, 3};
    request = request_of(Kind::all_gather, 0);
    request.counts = counts;
    request.input = request.output = data.data();
    refused(request, Code::invalid_argument, "3 counts");
    test.expect(communicator.failure().ok(), "not poisoned");
    test.require_ok(communicator.run(all_reduce_request(data, data)), "still works");
  }) == "");
}

TEST_CASE("abort from another thread ends every rank's wait within a second") {
  RingWorld world(3);
  Meeting meeting(3);
  CHECK(world.run([&](RankTest& test, Communicator& communicator) {
    std::vector<float> data(1000, 1.0F);
    test.require_ok(communicator.run(all_reduce_request(data, data)), "before");
    test.require(meeting.arrive_and_wait(Deadline::in(std::chrono::seconds(20))), "all have done it");
    std::thread aborter;
    const auto start = Clock::now();
    if (communicator.rank() == 2) {
      aborter = std::thread([&] { communicator.abort("enough"); });
      aborter.join();
      test.expect(seconds_since(start) < 1, "abort returns within a second");
      test.expect_equal(communicator.failure().code(), Code::aborted, "failure() knows at once");
    }
    const Status failed = communicator.run(all_reduce_request(data, data));
    test.expect(seconds_since(start) < 2, "within two seconds");
    test.expect_equal(failed.code(), Code::aborted, failed.text());
    test.expect(failed.text().find("rank 2 aborted: enough") != std::string::npos, failed.text());
    test.expect_equal(failed.failure().peer, 2, "guilty");
  }) == "");
}

TEST_CASE("a rank that leaves early is named on every other rank") {
  for (const Rank size : {2, 3, 4}) {
    RingWorld world(size);
    CHECK(world.run_bare([&](RankTest& test) {
      auto communicator = Communicator::create(world.make_job(test.rank()), world.options(test.rank()));
      test.require_ok(communicator, "create");
      std::vector<float> data(1000, 1.0F);
      test.require_ok((*communicator)->run(all_reduce_request(data, data)), "before");
      if (test.rank() == 1) return;
      const auto start = Clock::now();
      const Status failed = (*communicator)->run(all_reduce_request(data, data));
      test.expect(seconds_since(start) < 2.5, "soon");
      test.expect_equal(failed.code(), Code::peer_left, failed.text());
      test.expect_equal(failed.failure().peer, 1, failed.text());
      test.expect(failed.text().find("allreduce #2 of 1000 float32 sum") != std::string::npos, failed.text());
    }) == "");
  }
}

TEST_CASE("a rank that does not call is named when the operation's time is over") {
  RingWorld world(3);
  Event over;
  CHECK(world.run(
            [&](RankTest& test, Communicator& communicator) {
              std::vector<float> data(1000, 1.0F);
              test.require_ok(communicator.run(all_reduce_request(data, data)), "before");
              if (communicator.rank() == 1) {
                test.expect(over.wait(Deadline::in(std::chrono::seconds(20))), "the others gave up");
                return;
              }
              const auto start = Clock::now();
              const Status failed = communicator.run(all_reduce_request(data, data));
              const double took = seconds_since(start);
              test.expect(took > 1.9 && took < 10, fmt::format("took {} s", took));
              test.expect_equal(failed.code(), Code::timed_out, failed.text());
              test.expect_equal(failed.failure().peer, 1, failed.text());
              if (communicator.rank() == 2) over.set();
            },
            [](Rank, CommunicatorOptions& options) { options.timeout = std::chrono::seconds(2); }) == "");
}

TEST_CASE("a send that nobody receives times out, and names the peer") {
  RingWorld world(2);
  Event over;
  CHECK(world.run(
            [&](RankTest& test, Communicator& communicator) {
              if (communicator.rank() == 1) {
                test.expect(over.wait(Deadline::in(std::chrono::seconds(20))), "the other gave up");
                return;
              }
              std::vector<float> data(100'000, 1.0F);  // more than any fabric buffers
              CollectiveRequest request = request_of(Kind::send, data.size(), ReduceOp::sum, 1);
              request.input = data.data();
              const Status failed = communicator.run(request);
              test.expect_equal(failed.code(), Code::timed_out, failed.text());
              test.expect_equal(failed.failure().peer, 1, failed.text());
              over.set();
            },
            [](Rank, CommunicatorOptions& options) { options.timeout = std::chrono::milliseconds(300); }) ==
        "");
}

TEST_CASE("waiting no longer than a deadline leaves the operation running") {
  RingWorld world(2);
  Event waited;
  CHECK(world.run([&](RankTest& test, Communicator& communicator) {
    std::vector<float> data(100, 1.0F);
    if (communicator.rank() == 1)
      test.expect(waited.wait(Deadline::in(std::chrono::seconds(20))), "rank 0 waited");
    const auto id = communicator.start(all_reduce_request(data, data));
    test.require_ok(id, "start");
    if (communicator.rank() == 0) {
      const Status early = communicator.wait(*id, Deadline::in(std::chrono::milliseconds(30)));
      test.expect_equal(early.code(), Code::timed_out, early.text());
      test.expect(communicator.failure().ok(), "not poisoned");
      waited.set();
    }
    test.require_ok(communicator.wait(*id, Deadline::in(std::chrono::seconds(20))), "wait");
    test.expect_equal(data.back(), 2.0F, "sum");
  }) == "");
}

TEST_CASE("a rank that never comes to create is named by those that did") {
  RingWorld world(3);
  Meeting meeting(2);
  CHECK(world.run_bare([&](RankTest& test) {
    if (test.rank() == 1) return;
    CommunicatorOptions options = world.options(test.rank());
    options.start_timeout = std::chrono::seconds(2);
    auto job = world.make_job(test.rank());
    // One that begins later than the other's time-out would be named as well.
    test.require(meeting.arrive_and_wait(Deadline::in(std::chrono::seconds(20))), "both are there");
    const auto start = Clock::now();
    const auto communicator = Communicator::create(std::move(job), options);
    test.expect(seconds_since(start) < 10, "soon after the start timeout");
    test.require(!communicator.ok(), "create fails");
    test.expect_equal(communicator.code(), Code::timed_out, communicator.status().text());
    test.expect(communicator.status().text().find("1 of 3 ranks did not come to world in time: 1") !=
                    std::string::npos,
                communicator.status().text());
    test.expect_equal(communicator.status().failure().peer, 1, "the missing rank");
  }) == "");
}

TEST_CASE("settings that must agree are refused with both values") {
  RingWorld world(2);
  CHECK(world.run_bare([&](RankTest& test) {
    CommunicatorOptions options = world.options(test.rank());
    options.segment_bytes = test.rank() == 0 ? 4096 : 8192;
    const auto communicator = Communicator::create(world.make_job(test.rank()), options);
    test.expect_equal(communicator.code(), Code::refused, "code");
    test.expect(communicator.status().text().find("rank 0 has 4096, rank 1 has 8192") != std::string::npos,
                communicator.status().text());
  }) == "");
  Job job;
  CommunicatorOptions options;
  options.algorithm = "rign";
  const auto refused = Communicator::create(std::make_shared<Job>(), options);
  CHECK(refused.code() == Code::invalid_argument);
  CHECK(refused.status().text().find("recursive_doubling") != std::string::npos);
}

TEST_CASE("destroying a communicator with operations on their way touches no buffer afterwards") {
  RingWorld world(2);
  CHECK(world.run([](RankTest& test, Communicator& communicator) {
    std::vector<float> data(100'000, 1.0F);
    if (communicator.rank() == 0)
      test.require_ok(communicator.start(all_reduce_request(data, data)), "start");
  }) == "");
}

}  // namespace
}  // namespace rondel::test
