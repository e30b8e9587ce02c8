// SPDX-License-Identifier: Apache-2.0
#include "launcher/frame_channel.h"

#include <signal.h>
#include <unistd.h>

#include <catch2/catch.hpp>
#include <chrono>
#include <string>
#include <vector>

#include "tests/support/seed.h"

using rondel::Bytes;
using rondel::EventLoop;
using rondel::FrameChannel;
using rondel::Status;
using rondel::UniqueFd;

namespace {

/// Two channels that speak to each other over two pipes, in one loop.
struct Pair {
  Pair() {
    ::signal(SIGPIPE, SIG_IGN);  // as launcher and agent have it
    int down[2], up[2];
    REQUIRE(::pipe(down) == 0);
    REQUIRE(::pipe(up) == 0);
    one.emplace(loop, UniqueFd(up[0]), UniqueFd(down[1]));
    other.emplace(loop, UniqueFd(down[0]), UniqueFd(up[1]), "magic");
  }
  Status open(const FrameChannel::Use& use) {
    RONDEL_TRY(one->open([](auto) { return Status(); }, [](const Status&) {}));
    return other->open(use, [this](Status why) {
      ended = true;
      why_ended = std::move(why);
    });
  }
  void turn() { REQUIRE(loop.wait(std::chrono::milliseconds(100)).ok()); }

  EventLoop loop = *EventLoop::create();
  std::optional<FrameChannel> one, other;
  bool ended = false;
  Status why_ended;
};

Bytes body_of(std::size_t bytes, unsigned seed) {
  Bytes body(bytes);
  for (std::size_t i = 0; i < bytes; ++i) body[i] = static_cast<std::byte>(i * 7 + seed);
  return body;
}

}  // namespace

TEST_CASE("frames of all sizes arrive in order, far beyond what a pipe holds") {
  rondel::test::Random random(rondel::test::test_seed());
  Pair pair;
  std::vector<Bytes> sent, got;
  REQUIRE(pair.open([&got](std::span<const std::byte> body) {
                got.emplace_back(body.begin(), body.end());
                return Status();
              })
              .ok());
  pair.one->send_raw("noise before the magic");
  for (unsigned i = 0; i < 200; ++i) {
    sent.push_back(body_of(i % 10 == 0 ? random.below(500'000) : random.below(300), i));
    pair.one->send(sent.back());
  }
  CHECK(pair.one->has_unsent());
  for (int turns = 0; got.size() < sent.size() && turns < 10'000; ++turns) pair.turn();
  CHECK(got == sent);
  pair.one->close();
  for (int turns = 0; !pair.ended && turns < 100; ++turns) pair.turn();
  CHECK(pair.ended);
  CHECK(pair.why_ended.ok());
}

TEST_CASE("a length over the limit ends the channel before anything is allocated for it") {
  Pair pair;
  REQUIRE(pair.open([](auto) { return Status(); }).ok());
  pair.one->send_raw(std::string("magic\xff\xff\xff\x7fxxxx", 13));
  for (int turns = 0; !pair.ended && turns < 100; ++turns) pair.turn();
  CHECK(pair.why_ended.code() == rondel::Code::refused);
}

TEST_CASE("a user's failure ends the channel, a closed one takes no more") {
  Pair pair;
  int frames = 0;
  REQUIRE(pair.open([&frames](auto) {
                ++frames;
                return Status(rondel::Code::refused, "no more");
              })
              .ok());
  pair.one->send_raw("magic");
  pair.one->send(body_of(10, 1));
  pair.one->send(body_of(10, 2));
  for (int turns = 0; !pair.ended && turns < 100; ++turns) pair.turn();
  CHECK(frames == 1);
  CHECK(pair.why_ended.text() == "no more");
  pair.other->close();
  pair.other->send(body_of(10, 3));
  CHECK_FALSE(pair.other->has_unsent());
}

TEST_CASE("flushing waits for a reader, but not for ever") {
  Pair pair;
  REQUIRE(pair.open([](auto) { return Status(); }).ok());
  pair.one->send(body_of(1'000'000, 1));
  CHECK_FALSE(pair.one->flush_within(std::chrono::milliseconds(20)));
  pair.other->close();
  CHECK(pair.one->flush_within(std::chrono::milliseconds(1'000)));  // nobody will read: it is dropped
}
