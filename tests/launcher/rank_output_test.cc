// SPDX-License-Identifier: Apache-2.0
#include "launcher/rank_output.h"

#include <fcntl.h>
#include <unistd.h>

#include <catch2/catch.hpp>
#include <string>
#include <thread>
#include <variant>
#include <vector>

namespace agent = rondel::agent;
using rondel::EventLoop;
using rondel::RankOutput;
using rondel::UniqueFd;
using std::chrono::milliseconds;

namespace {

/// A rank's standard output, and what of it has been sent on.
struct World {
  World() {
    int ends[2];
    REQUIRE(::pipe2(ends, O_CLOEXEC | O_NONBLOCK) == 0);
    REQUIRE(output.add(0, agent::Stream::standard_output, UniqueFd(ends[0])).ok());
    rank = UniqueFd(ends[1]);
  }
  void write(const std::string& text) {
    REQUIRE(::write(rank.get(), text.data(), text.size()) == std::ssize(text));
  }
  void turn() { REQUIRE(loop.wait(milliseconds(0)).ok()); }

  EventLoop loop = *EventLoop::create();
  std::string sent;
  bool ended = false;
  UniqueFd rank;
  RankOutput output{loop, [this](const agent::FromAgent& message) {
                      if (const auto* piece = std::get_if<agent::Output>(&message))
                        for (const std::byte byte : piece->bytes) sent += static_cast<char>(byte);
                      ended = ended || std::holds_alternative<agent::OutputEnd>(message);
                    }};
};

}  // namespace

TEST_CASE("what a rank wrote is not given up because its reader took a long time") {
  World world;
  world.write("first ");
  world.turn();  // no room: it is held
  CHECK(world.sent.empty());
  world.rank.reset();  // the rank has ended
  std::this_thread::sleep_for(milliseconds(20));
  world.output.close_silent_streams(milliseconds(10));
  CHECK_FALSE(world.ended);
  world.output.grant(agent::Stream::standard_output, 1000);
  world.output.close_silent_streams(milliseconds(10));  // before the loop had a turn
  CHECK_FALSE(world.ended);
  for (int i = 0; i < 3; ++i) world.turn();
  CHECK(world.sent == "first ");
  CHECK(world.ended);
}

TEST_CASE("a stream that somebody else holds open, and writes nothing to, ends") {
  World world;
  world.output.grant(agent::Stream::standard_output, 1000);
  world.write("last words");
  for (int i = 0; i < 2; ++i) world.turn();
  world.output.close_silent_streams(std::chrono::hours(1));
  CHECK_FALSE(world.ended);
  std::this_thread::sleep_for(milliseconds(20));
  world.output.close_silent_streams(milliseconds(10));
  CHECK(world.ended);
  CHECK(world.sent == "last words");
  CHECK_FALSE(world.output.streams_open());
}
