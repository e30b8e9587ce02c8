// SPDX-License-Identifier: Apache-2.0
#include "tests/support/thread_world.h"

#include <catch2/catch.hpp>

namespace rondel::test {
namespace {

TEST_CASE("ranks run as threads, and every failure carries its rank") {
  Meeting meeting(3);
  Event event;
  const auto failures = run_as_threads(3, [&meeting, &event](RankTest& t) {
    t.require(meeting.arrive_and_wait(Deadline::in(std::chrono::seconds(10))), "all arrive");
    if (t.rank() == 0) event.set();
    t.require(event.wait(Deadline::in(std::chrono::seconds(10))), "rank 0 sets the event");
    t.expect_equal(t.rank() % 2, 0, "parity");
    if (t.rank() == 2) t.require_ok(Status(Code::io_error, "no disk"), "write");
    t.expect(t.rank() != 2, "not reached by rank 2");
  });
  REQUIRE(failures.size() == 2);
  CHECK(failures[0].find("rank 1: thread_world_test.cc:") == 0);
  CHECK(failures[0].find("parity: found 1, wanted 0") != std::string::npos);
  CHECK(failures[1].find("write: no disk") != std::string::npos);
  CHECK_FALSE(Event().wait(Deadline::in(std::chrono::milliseconds(1))));
}

}  // namespace
}  // namespace rondel::test
