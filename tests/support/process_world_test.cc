// SPDX-License-Identifier: Apache-2.0
#include "tests/support/process_world.h"

#include <unistd.h>

#include <catch2/catch.hpp>
#include <csignal>

namespace rondel::test {
namespace {

using std::chrono::milliseconds;
using std::chrono::seconds;

Deadline soon() { return Deadline::in(seconds(20)); }

[[noreturn]] void wait_for_a_signal() {
  while (true) ::pause();
}

TEST_CASE("ranks run as processes of their own and report how they ended") {
  ProcessWorld world(3, [](RankTest& t, const Voice& voice) {
    voice.say("I am rank " + std::to_string(t.rank()) + " of " + std::to_string(t.size()));
    t.expect(t.rank() != 1, "rank 1 is unhappy");
  });
  const auto endings = world.wait_all(soon());
  CHECK(endings[0].exit_code == 0);
  CHECK(endings[0].words == "I am rank 0 of 3\n");
  CHECK(endings[1].exit_code == 1);
  CHECK(endings[1].words.find("rank 1 is unhappy") != std::string::npos);
  CHECK(failures_of(endings, 1) == "");
  CHECK(failures_of(endings).find("rank 1: process_world_test.cc") != std::string::npos);
}

TEST_CASE("a rank can be killed once it has said that it is ready") {
  ProcessWorld world(2, [](RankTest&, const Voice& voice) {
    voice.say("ready");
    wait_for_a_signal();
  });
  REQUIRE(world.heard(0, "ready", soon()));
  world.signal(0, SIGKILL);
  const Ending killed = world.wait(0, soon());
  CHECK(killed.ended);
  CHECK(killed.signal == SIGKILL);
  const Ending late = world.wait(1, Deadline::in(milliseconds(50)));
  CHECK_FALSE(late.ended);
  CHECK(failures_of({killed, late}, 0).find("rank 1 was still running") != std::string::npos);
}

TEST_CASE("a stopped rank is silent, goes on when continued, and what never comes is not heard") {
  ProcessWorld world(1, [](RankTest&, const Voice& voice) {
    ::raise(SIGSTOP);
    voice.say("awake");
  });
  CHECK_FALSE(world.heard(0, "awake", Deadline::in(milliseconds(50))));
  world.signal(0, SIGCONT);
  CHECK(world.heard(0, "awake", soon()));
  CHECK_FALSE(world.heard(0, "wake", soon()));
  CHECK(world.wait(0, soon()).exit_code == 0);
}

}  // namespace
}  // namespace rondel::test
