// SPDX-License-Identifier: Apache-2.0
#include "transports/loopback/transport.h"

#include <catch2/catch.hpp>
#include <cstring>
#include <vector>

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

}  // namespace
}  // namespace rondel
