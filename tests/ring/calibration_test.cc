// SPDX-License-Identifier: Apache-2.0
#include "ring/calibration.h"

#include <array>
#include <catch2/catch.hpp>
#include <vector>

#include "tests/support/thread_world.h"
#include "transports/loopback/transport.h"

namespace rondel::test {
namespace {

using std::chrono::milliseconds;
using std::chrono::seconds;

TEST_CASE("a measurement that fails leaves nothing posted of what it owned") {
  const auto world = loopback::make_world();
  Meeting meeting(2), over(2);
  std::vector<Bytes> addresses(2);
  const auto failures = run_as_threads(2, [&](RankTest& t) {
    const auto transport = loopback::make_transport(world);
    auto endpoint = transport->open({.rank = t.rank(), .size = 2, .hosts = {"here", "here"}});
    t.require_ok(endpoint, "open");
    addresses[static_cast<std::size_t>(t.rank())] = (*endpoint)->address();
    t.require(meeting.arrive_and_wait(Deadline::in(seconds(5))), "addresses");
    t.require_ok((*endpoint)->connect(addresses, std::array{1 - t.rank()}, Deadline::in(seconds(5))),
                 "connect");
    if (t.rank() == 0) {  // rank 1 never measures
      const liveness::Watch watch(1);
      const auto cost = measure_cost(**endpoint, 0, 2, watch, Deadline::in(milliseconds(100)));
      t.expect_equal(static_cast<int>(cost.code()), static_cast<int>(Code::timed_out), "status");
      t.expect_equal(cost.status().failure().peer, 1, "names rank 1");
      t.expect(!(*endpoint)->failure().ok(), "the endpoint lets go of what was posted");
    }
    t.require(over.arrive_and_wait(Deadline::in(seconds(5))), "the end");
  });
  CHECK(all_of(failures) == "");
}

}  // namespace
}  // namespace rondel::test
