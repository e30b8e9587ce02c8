// SPDX-License-Identifier: Apache-2.0
#include "tests/support/fault_endpoint.h"

#include <array>
#include <catch2/catch.hpp>

#include "tests/support/seed.h"
#include "tests/support/thread_world.h"
#include "transports/loopback/transport.h"

namespace rondel {
namespace {

using std::chrono::milliseconds;
using std::chrono::seconds;
using test::RankTest;

// Exchanges `rounds` numbers between two ranks whose endpoints have `faults`; returns the first failure.
Status exchange_numbers(RankTest& t, Endpoint& e, int rounds) {
  std::array<std::int32_t, 2> numbers{};
  auto region = e.register_memory({reinterpret_cast<std::byte*>(numbers.data()), sizeof numbers});
  const std::array slices{Slice{region->get(), 0, 4}, Slice{region->get(), 4, 4}};
  const Rank peer = 1 - t.rank();
  for (int round = 0; round < rounds; ++round) {
    Completion done;
    done.arm(2);
    numbers = {round * 2 + t.rank(), -1};
    const std::array works{Work{.verb = Verb::send, .peer = peer, .local = {&slices[0], 1}, .done = &done},
                           Work{.verb = Verb::recv, .peer = peer, .local = {&slices[1], 1}, .done = &done}};
    RONDEL_TRY(e.post(works, {}));
    const Deadline deadline = Deadline::in(seconds(10));
    while (!done.done()) {
      if (deadline.passed()) return {Code::timed_out, "the round did not end"};
      const auto moved = e.progress(milliseconds(50));
      if (!moved.ok()) {
        t.expect(done.done(), "a failure finishes all works");
        return moved.status();
      }
    }
    t.expect_equal(numbers[1], round * 2 + peer, "the peer's number");
  }
  return {};
}

std::string run_with(const test::Faults& faults, Rank guilty,
                     const std::function<void(RankTest&, const Status&)>& judge) {
  const auto world = loopback::make_world();
  test::Meeting meeting(2);
  std::vector<Bytes> addresses(2);
  return test::all_of(test::run_as_threads(2, [&](RankTest& t) {
    const auto transport = test::with_faults(loopback::make_transport(world), faults, guilty);
    auto endpoint = transport->open({.rank = t.rank(), .size = 2});
    t.require_ok(endpoint, "open");
    addresses[static_cast<std::size_t>(t.rank())] = (*endpoint)->address();
    t.require(meeting.arrive_and_wait(Deadline::in(seconds(10))), "both have opened");
    t.require_ok((*endpoint)->connect(addresses, std::array{1 - t.rank()}, Deadline::in(seconds(10))),
                 "connect");
    judge(t, exchange_numbers(t, **endpoint, 300));
  }));
}

TEST_CASE("batches held back and looks away delay works, and lose none") {
  const test::Faults faults{.seed = test::test_seed(), .hold = 0.3, .look_away = 0.3};
  CHECK(run_with(faults, kNoRank,
                 [](RankTest& t, const Status& status) { t.require_ok(status, "all rounds"); }) == "");
}

TEST_CASE("the chosen work of the guilty rank fails, and the peer notices") {
  const test::Faults faults{.seed = 3, .fail_work = 41, .fail_code = Code::io_error};
  CHECK(run_with(faults, 1, [](RankTest& t, const Status& status) {
          t.expect_equal(status.code(), t.rank() == 1 ? Code::io_error : Code::peer_lost, status.text());
          if (t.rank() == 1) t.expect(status.text().find("injected at work 41") == 0, status.text());
        }) == "");
}

}  // namespace
}  // namespace rondel
