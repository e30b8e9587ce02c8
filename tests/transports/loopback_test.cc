// SPDX-License-Identifier: Apache-2.0
#include "transports/loopback/transport.h"

#include <array>
#include <catch2/catch.hpp>
#include <filesystem>
#include <iterator>
#include <vector>

#include "tests/support/process_world.h"
#include "tests/support/thread_world.h"

namespace rondel {
namespace {

using test::all_of;
using test::RankTest;

TEST_CASE("two threads exchange a few bytes through loopback") {
  const auto world = loopback::make_world();
  test::Meeting meeting(2);
  std::vector<Bytes> addresses(2);
  const auto failures = test::run_as_threads(2, [&](RankTest& t) {
    const auto transport = loopback::make_transport(world);
    auto endpoint = transport->open({.rank = t.rank(), .size = 2, .hosts = {"here", "here"}});
    t.require_ok(endpoint, "open");
    Endpoint& e = **endpoint;
    addresses[static_cast<std::size_t>(t.rank())] = e.address();
    t.require(meeting.arrive_and_wait(Deadline::in(std::chrono::seconds(5))), "addresses");
    const Rank peer = 1 - t.rank();
    t.require_ok(e.connect(addresses, std::array{peer}, Deadline::in(std::chrono::seconds(5))), "connect");

    std::vector<int> mine{t.rank(), 10, 20};
    std::vector<int> theirs(3);
    const std::size_t bytes = sizeof(int) * 3;
    auto from = e.register_memory({reinterpret_cast<std::byte*>(mine.data()), bytes});
    auto to = e.register_memory({reinterpret_cast<std::byte*>(theirs.data()), bytes});
    const Slice from_slice{from->get(), 0, bytes};
    const Slice to_slice{to->get(), 0, bytes};
    Completion done;
    done.arm(2);
    const std::array works{Work{.verb = Verb::send, .peer = peer, .local = {&from_slice, 1}, .done = &done},
                           Work{.verb = Verb::recv, .peer = peer, .local = {&to_slice, 1}, .done = &done}};
    t.require_ok(e.post(works, {}), "post");
    while (!done.done()) t.require_ok(e.progress(std::chrono::seconds(1)), "progress");
    t.expect_equal(theirs[0], peer, "the peer's word");
    t.expect_equal(e.bytes_received(), std::uint64_t{12}, "bytes received");
  });
  CHECK(all_of(failures) == "");
}

TEST_CASE("loopback worlds and processes have domains of their own") {
  const auto first = loopback::make_transport(loopback::make_world());
  const auto second = loopback::make_transport(loopback::make_world());
  CHECK(first->probe().usable);
  CHECK(first->probe().domain != second->probe().domain);
  CHECK(loopback::make_transport()->probe().domain == loopback::make_transport()->probe().domain);
}

TEST_CASE("an address from elsewhere is refused with the rank's name, before anything is waited for") {
  const auto here = loopback::make_transport(loopback::make_world());
  const auto elsewhere = loopback::make_transport(loopback::make_world());
  auto mine = here->open({.rank = 0, .size = 2, .hosts = {"a", "b"}});
  auto theirs = elsewhere->open({.rank = 1, .size = 2});
  REQUIRE(mine.ok());
  REQUIRE(theirs.ok());
  for (const Bytes& wrong : {(*theirs)->address(), Bytes{}, Bytes(1000, std::byte{1})}) {
    const std::array addresses{(*mine)->address(), wrong};
    const Status status =
        (*mine)->connect(addresses, std::array{Rank{1}}, Deadline::in(std::chrono::hours(1)));
    CHECK(status.code() == Code::unavailable);
    CHECK(status.failure().peer == 1);
    CHECK(status.failure().host == "b");
  }
}

TEST_CASE("a forked process has a loopback domain of its own") {
  const auto transport = loopback::make_transport();
  const std::string parent = transport->probe().domain;
  test::ProcessWorld child(1, [&transport, &parent](RankTest& t, const test::Voice&) {
    t.expect(transport->probe().domain != parent, "the child's domain differs");
  });
  CHECK(failures_of(child.wait_all(Deadline::in(std::chrono::seconds(20)))) == "");
}

TEST_CASE("a thousand endpoints come and go without leaving a descriptor behind") {
  const auto open_descriptors = [] {
    return std::distance(std::filesystem::directory_iterator("/proc/self/fd"),
                         std::filesystem::directory_iterator());
  };
  const auto transport = loopback::make_transport(loopback::make_world());
  const auto before = open_descriptors();
  for (int i = 0; i < 1000; ++i) {
    auto endpoint = transport->open({.rank = 0, .size = 1});
    REQUIRE(endpoint.ok());
    REQUIRE((*endpoint)->wait_descriptor() >= 0);
  }
  CHECK(open_descriptors() == before);
}

}  // namespace
}  // namespace rondel
