// SPDX-License-Identifier: Apache-2.0
// Operations that are started and moved on by their caller, several at once, beside sends and receives.
#include <fmt/format.h>
#include <poll.h>

#include <catch2/catch.hpp>
#include <numeric>

#include "ring/communicator.h"
#include "tests/ring/ring_world.h"

namespace rondel::test {
namespace {

using Kind = CollectiveKind;

TEST_CASE("several operations in flight end in order of their start, each with its own answer") {
  RingWorld world(4);
  CHECK(world.run([](RankTest& test, Communicator& communicator) {
    constexpr int kOperations = 12;
    std::vector<std::vector<float>> inputs, outputs;
    std::vector<OperationId> ids;
    for (int i = 0; i < kOperations; ++i) {
      inputs.emplace_back(static_cast<std::size_t>(1 + i * 997), static_cast<float>(communicator.rank() + i));
      outputs.emplace_back(inputs.back().size(), -1.0F);
    }
    for (int i = 0; i < kOperations; ++i) {
      const auto index = static_cast<std::size_t>(i);
      const auto id = communicator.start(all_reduce_request(inputs[index], outputs[index]));
      test.require_ok(id, "start");
      ids.push_back(*id);
    }
    const Deadline deadline = Deadline::in(std::chrono::seconds(20));
    for (int i = kOperations - 1; i >= 0; i -= 3) {
      test.require_ok(communicator.wait(ids[static_cast<std::size_t>(i)], deadline), "wait");
      for (int before = 0; before < i; ++before)
        test.expect(communicator.done(ids[static_cast<std::size_t>(before)]), "earlier operations are done");
    }
    for (int i = 0; i < kOperations; ++i)
      for (const float value : outputs[static_cast<std::size_t>(i)])
        if (value != static_cast<float>(6 + 4 * i)) return test.note(fmt::format("operation {} is wrong", i));
  }) == "");
}

TEST_CASE("progress and the wait descriptor drive operations to their end") {
  RingWorld world(2);
  CHECK(world.run([](RankTest& test, Communicator& communicator) {
    std::vector<float> data(5000, 1.0F);
    const auto id = communicator.start(all_reduce_request(data, data));
    test.require_ok(id, "start");
    const Deadline deadline = Deadline::in(std::chrono::seconds(20));
    while (!communicator.done(*id) && !deadline.passed()) {
      test.require_ok(communicator.wait_descriptor(), "descriptor");
      test.require_ok(communicator.progress(std::chrono::milliseconds(5)), "progress");
    }
    test.require_ok(communicator.wait(*id, deadline), "wait");
    test.expect(data.front() == 2.0F && data.back() == 2.0F, "sum");
    test.expect_equal(communicator.wait(*id, deadline).code(), Code::invalid_argument, "a second wait");
  }) == "");
}

TEST_CASE("sends and receives progress side by side and beside collectives") {
  RingWorld world(3);
  CHECK(world.run([](RankTest& test, Communicator& communicator) {
    const Rank rank = communicator.rank();
    std::vector<std::vector<std::int32_t>> sent(3), received(3);
    std::vector<OperationId> ids;
    const auto start = [&](CollectiveRequest request) {
      const auto id = communicator.start(request);
      test.require_ok(id, "start");
      ids.push_back(*id);
    };
    for (Rank peer = 2; peer >= 0; --peer) {
      if (peer == rank) continue;
      const auto p = static_cast<std::size_t>(peer);
      sent[p].assign(20'000, rank * 10 + peer);
      received[p].assign(20'000, -1);
      CollectiveRequest request;
      request.type = DataType::int32;
      request.count = 10'000;
      request.root = peer;
      for (std::size_t half = 0; half < 2; ++half) {
        request.kind = Kind::recv;
        request.output = received[p].data() + half * 10'000;
        start(request);
        request.kind = Kind::send;
        request.input = sent[p].data() + half * 10'000;
        start(request);
      }
    }
    std::vector<float> data(1000, 1.0F);
    test.require_ok(communicator.run(all_reduce_request(data, data)), "allreduce");
    const Deadline deadline = Deadline::in(std::chrono::seconds(20));
    for (const OperationId id : ids) test.require_ok(communicator.wait(id, deadline), "wait");
    for (Rank peer = 0; peer < 3; ++peer) {
      const std::vector<std::int32_t> wanted(20'000, peer * 10 + rank);
      if (peer != rank) test.expect(received[static_cast<std::size_t>(peer)] == wanted, "received data");
    }
    test.expect(data.back() == 3.0F, "sum");
  }) == "");
}

TEST_CASE("who does not want to wait is not held up by peers that have not come") {
  RingWorld world(4);
  Meeting looked(4);
  CHECK(world.run([&](RankTest& test, Communicator& communicator) {
    const Deadline deadline = Deadline::in(std::chrono::seconds(20));
    std::vector<float> data(1000, 1.0F);
    CollectiveRequest request;
    request.count = data.size();
    if (communicator.rank() > 0) {
      request.kind = Kind::recv;
      request.root = 0;
      request.output = data.data();
      test.require(looked.arrive_and_wait(deadline), "looked");
      return test.require_ok(communicator.run(request), "recv");
    }
    request.kind = Kind::send;
    request.input = data.data();
    std::vector<OperationId> sends;
    for (request.root = 1; request.root < 4; ++request.root) {
      const auto sent = communicator.start(request);
      test.require_ok(sent, "send");
      sends.push_back(*sent);
    }
    int looks = 0;
    for (const Deadline end = Deadline::in(std::chrono::milliseconds(400)); !end.passed(); ++looks)
      test.require_ok(communicator.progress(std::chrono::nanoseconds::zero()), "progress");
    test.expect(looks >= 20, fmt::format("{} looks in 400 ms", looks));
    test.require(looked.arrive_and_wait(deadline), "looked");
    for (const OperationId sent : sends) test.require_ok(communicator.wait(sent, deadline), "wait");
  }) == "");
}

TEST_CASE("operations of two communicators that have to connect do not lock each other up") {
  // Rank 1 leaves the second communicator alone while the others are about to connect there, and waits for
  // what they do on the first.
  RingWorld world(8);
  CHECK(world.run(
            [&](RankTest& test, Communicator& communicator) {
              for (const int looks : {0, 2, 5}) {
                auto first = communicator.duplicate(), second = communicator.duplicate();
                test.require_ok(first, "duplicate");
                test.require_ok(second, "duplicate");
                std::vector<float> data(1000, 1.0F), sent(8000, 1.0F), received(8000);
                CollectiveRequest exchange;
                exchange.kind = Kind::all_to_all;
                exchange.count = 1000;
                exchange.input = sent.data();
                exchange.output = received.data();
                const auto sum = (*first)->start(all_reduce_request(data, data));
                const auto exchanged = (*second)->start(exchange);
                test.require_ok(sum, "start");
                test.require_ok(exchanged, "start");
                const auto turn = [&](Communicator& on, std::chrono::nanoseconds may_block_for) {
                  test.require_ok(on.progress(may_block_for), "progress");
                };
                const Deadline deadline = Deadline::in(std::chrono::seconds(20));
                if (communicator.rank() == 1) {
                  for (int i = 0; i < looks; ++i) turn(**second, std::chrono::milliseconds(1));
                  test.require_ok((*first)->wait(*sum, deadline), "wait");
                }
                while (!((*first)->done(*sum) && (*second)->done(*exchanged)) && !deadline.passed()) {
                  turn(**second, std::chrono::nanoseconds::zero());
                  turn(**first, std::chrono::nanoseconds::zero());
                }
                test.require(!deadline.passed(), "soon");
              }
            },
            [](Rank, CommunicatorOptions& options) { options.timeout = std::chrono::seconds(5); }) == "");
}

TEST_CASE("an event loop sleeps while something has come that nobody asked for yet") {
  RingWorld world(2);
  Meeting begun(2), sent(2), looked(2);
  CHECK(world.run([&](RankTest& test, Communicator& communicator) {
    const bool first = communicator.rank() == 0;
    const auto meet = [&test](Meeting& meeting) {
      test.require(meeting.arrive_and_wait(Deadline::in(std::chrono::seconds(20))), "both have come");
    };
    std::int32_t item = first ? 0 : 7;
    CollectiveRequest request;
    request.kind = first ? Kind::recv : Kind::send;
    request.type = DataType::int32;
    request.count = 1;
    request.root = 1 - communicator.rank();
    request.input = request.output = &item;
    std::vector<float> data(1000, 1.0F);
    test.require_ok(communicator.run(request), "a first exchange");
    meet(begun);
    if (!first) {
      const auto second = communicator.start(request);
      test.require_ok(second, "start");
      test.require_ok(communicator.progress(std::chrono::milliseconds(1)), "progress");
      meet(sent);
      meet(looked);
      test.require_ok(communicator.run(all_reduce_request(data, data)), "allreduce");
      test.require_ok(communicator.wait(*second, Deadline::in(std::chrono::seconds(20))), "wait");
      return;
    }
    meet(sent);
    const auto sum = communicator.start(all_reduce_request(data, data));
    test.require_ok(sum, "start");
    int turns = 0;
    for (const Deadline end = Deadline::in(std::chrono::milliseconds(300)); !end.passed(); ++turns) {
      const auto descriptor = communicator.wait_descriptor();
      test.require_ok(descriptor, "descriptor");
      pollfd ready{*descriptor, POLLIN, 0};
      ::poll(&ready, 1, end.left_ms());
      test.require_ok(communicator.progress(std::chrono::nanoseconds::zero()), "progress");
    }
    // Some fabrics have no descriptor, and are looked at every two milliseconds.
    test.expect(turns < 200, std::to_string(turns) + " turns");
    meet(looked);
    test.require_ok(communicator.wait(*sum, Deadline::in(std::chrono::seconds(20))), "wait");
    test.require_ok(communicator.run(request), "the second exchange");
    test.expect_equal(item, 7, "what had come");
  }) == "");
}

TEST_CASE("more sends than an endpoint takes at once wait for their turn") {
  RingWorld world(2);
  CHECK(world.run([](RankTest& test, Communicator& communicator) {
    constexpr int kMessages = 100;
    std::vector<std::int32_t> data(kMessages, -1);
    std::vector<OperationId> ids;
    for (int i = 0; i < kMessages; ++i) {
      CollectiveRequest request;
      request.type = DataType::int32;
      request.count = 1;
      request.root = 1 - communicator.rank();
      request.kind = communicator.rank() == 0 ? Kind::send : Kind::recv;
      std::int32_t& slot = data[static_cast<std::size_t>(i)];
      if (communicator.rank() == 0) slot = i * i;
      request.input = request.output = &slot;
      const auto id = communicator.start(request);
      test.require_ok(id, "start");
      ids.push_back(*id);
    }
    for (const OperationId id : ids)
      test.require_ok(communicator.wait(id, Deadline::in(std::chrono::seconds(20))), "wait");
    for (int i = 0; i < kMessages; ++i)
      test.expect_equal(data[static_cast<std::size_t>(i)], i * i, "message in order");
  }) == "");
}

TEST_CASE("a round of pairs that wait for one another does not lock up while connecting") {
  RingWorld world(3);
  CHECK(world.run([](RankTest& test, Communicator& communicator) {
    // 2 starts to receive from 0 and to send to 1; 1 needs that before it sends to 0, and 0 needs that before
    // it sends.
    std::int32_t in = 7, out = -1;
    const auto request = [&](Kind kind, Rank peer) {
      CollectiveRequest made;
      made.kind = kind;
      made.type = DataType::int32;
      made.count = 1;
      made.root = peer;
      made.input = &in;
      made.output = &out;
      return made;
    };
    if (communicator.rank() == 2) {
      const auto recv = communicator.start(request(Kind::recv, 0));
      test.require_ok(recv, "start");
      test.require_ok(communicator.run(request(Kind::send, 1)), "send");
      test.require_ok(communicator.wait(*recv, Deadline::in(std::chrono::seconds(20))), "wait");
    } else if (communicator.rank() == 1) {
      test.require_ok(communicator.run(request(Kind::recv, 2)), "recv");
      test.require_ok(communicator.run(request(Kind::send, 0)), "send");
    } else {
      test.require_ok(communicator.run(request(Kind::recv, 1)), "recv");
      test.require_ok(communicator.run(request(Kind::send, 2)), "send");
    }
    test.expect_equal(out, 7, "received");
  }) == "");
}

}  // namespace
}  // namespace rondel::test
