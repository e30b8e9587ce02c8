// SPDX-License-Identifier: Apache-2.0
// A peer whose host has vanished is lost after the silence limit; a peer that merely does not read is not.
#include <catch2/catch.hpp>

#include "tests/transports/tcp/world.h"
#include "transports/tcp/socket_options.h"

namespace rondel::tcp::test {

TEST_CASE("a peer that does not read for long keeps its connection") {
  const auto secret = Secret::generate();
  Config config;
  config.silence_timeout = std::chrono::milliseconds(1000);
  const OneRank zero = open_rank(*secret, 0, 2, config);
  const OneRank one = open_rank(*secret, 1, 2, config);
  for (const Status& status :
       connect_pair(*zero.endpoint, *one.endpoint, Deadline::in(std::chrono::seconds(5))))
    REQUIRE(status.text() == "ok");
  std::vector<std::byte> much(64 << 20);
  const Registration region(MemorySpan{much.data(), much.size()});
  const Slice all{&region, 0, much.size()};
  Completion done;
  done.arm(2);
  Work send{Verb::send, 1, {&all, 1}, {}, {}, {}, &done};
  REQUIRE(zero.endpoint->post({&send, 1}, {}).ok());
  const Deadline stalled = Deadline::in(std::chrono::milliseconds(3500));
  while (!stalled.passed()) {
    const auto moved = zero.endpoint->progress(std::chrono::milliseconds(200));
    REQUIRE(moved.status().text() == "ok");
  }
  CHECK_FALSE(done.done());
  std::vector<std::byte> there(much.size());
  const Registration target(MemorySpan{there.data(), there.size()});
  const Slice home{&target, 0, there.size()};
  Work recv{Verb::recv, 0, {&home, 1}, {}, {}, {}, &done};
  REQUIRE(one.endpoint->post({&recv, 1}, {}).ok());
  const Deadline deadline = Deadline::in(std::chrono::seconds(20));
  while (!done.done() && !deadline.passed()) {
    REQUIRE(zero.endpoint->progress({}).status().text() == "ok");
    REQUIRE(one.endpoint->progress({}).status().text() == "ok");
  }
  CHECK(done.done());
}

}  // namespace rondel::tcp::test
