// SPDX-License-Identifier: Apache-2.0
// The contract's rules on transports, connecting and memory.
#include <algorithm>
#include <array>
#include <catch2/catch.hpp>

#include "tests/conformance/world.h"

namespace rondel::conformance {
namespace {

using std::chrono::milliseconds;
using std::chrono::seconds;

const WorldOptions kUnconnected{.connected = false};

TEST_CASE("T1: a probe is data, may be asked again, and usable means that open works") {
  const auto transport = make_backend()->transport_for(0);
  const Probe first = transport->probe();
  const Probe second = transport->probe();
  CHECK(first.usable);
  CHECK(first.why_not == "");
  CHECK(first.bytes_per_second > 0);
  CHECK(first.domain == second.domain);
  CHECK(transport->open(options_for(0, 1)).ok());
}

TEST_CASE(
    "T2: ranks that can connect have equal domains, and reach one another's beacons where there are any") {
  const auto backend = make_backend();
  const auto zero = backend->transport_for(0), one = backend->transport_for(1);
  const Probe of_zero = zero->probe(), of_one = one->probe();
  CHECK(of_zero.domain == of_one.domain);
  if (!of_zero.beacon.empty()) CHECK(one->try_beacon(of_zero.beacon).text() == "ok");
  if (!of_one.beacon.empty()) CHECK(zero->try_beacon(of_one.beacon).text() == "ok");
}

TEST_CASE("T3: capabilities leave room for a ring") {
  const auto transport = make_backend()->transport_for(0);
  const auto endpoint = transport->open(options_for(0, 1));
  REQUIRE(endpoint.ok());
  const Capabilities& can = (*endpoint)->capabilities();
  CHECK(can.max_in_flight >= 2);
  CHECK(can.max_slices >= 1);
  CHECK(can.preferred_segment_bytes >= 4096);
  CHECK((can.host_memory || can.cuda_memory));
}

TEST_CASE("C1: connect brings up a link to every neighbour") {
  CHECK(run_world(4, [](Member& m) {
          for (const Rank peer : everyone_but(m.rank(), m.size())) m.exchange(peer);
        }) == "");
}

TEST_CASE("C2: connect may be called again with further neighbours; what is connected stays so") {
  const auto body = [](Member& m, const AddressBook& addresses) {
    const Rank size = m.size();
    std::array ring{(m.rank() + 1) % size, (m.rank() + size - 1) % size};
    std::sort(ring.begin(),
              ring.end());  // pairs meet in one order, so that exchanges do not wait in a circle
    m.t.require_ok(m.e.connect(addresses, ring, soon()), "connect with the ring's neighbours");
    for (const Rank peer : ring) m.exchange(peer, 1);
    m.t.require_ok(m.e.connect(addresses, everyone_but(m.rank(), size), soon()), "connect with all");
    for (const Rank peer : everyone_but(m.rank(), size)) m.exchange(peer, 2);
    m.t.require_ok(m.e.connect(addresses, ring, soon()), "connect with those that are connected");
  };
  CHECK(run_world(4, body, kUnconnected) == "");
}

TEST_CASE("C3: a neighbour that does not come is named when the deadline passes") {
  test::Event seen;
  const auto body = [&seen](Member& m, const AddressBook& addresses) {
    if (m.rank() == 0) return void(m.t.expect(seen.wait(soon()), "rank 1 gives up"));
    const std::array absent{Rank{0}};
    const Status status = m.e.connect(addresses, absent, Deadline::in(milliseconds(200)));
    seen.set();
    m.t.expect_equal(status.code(), Code::timed_out, status.text());
    m.t.expect_equal(status.failure().peer, Rank{0}, "the missing rank");
    m.t.expect(status.text().find("rank 0") != std::string::npos, "the text names it: " + status.text());
  };
  CHECK(run_world(2, body, kUnconnected) == "");
}

TEST_CASE("C3: a neighbour whose endpoint has gone is named") {
  const auto backend = make_backend();
  const auto near = backend->transport_for(0);
  const auto far = backend->transport_for(1);
  auto mine = near->open(options_for(0, 2));
  auto theirs = far->open(options_for(1, 2));
  REQUIRE(mine.ok());
  REQUIRE(theirs.ok());
  const std::array addresses{(*mine)->address(), (*theirs)->address()};
  *theirs = nullptr;
  const Status status = (*mine)->connect(addresses, std::array{Rank{1}}, Deadline::in(milliseconds(300)));
  INFO(status.text());
  CHECK((status.code() == Code::timed_out || status.code() == Code::peer_lost));
  CHECK(status.failure().peer == 1);
}

TEST_CASE("C4: a failed connect leaves the links that stood as they were") {
  test::Event seen;
  const auto body = [&seen](Member& m, const AddressBook& addresses) {
    if (m.rank() == 0) return void(m.t.expect(seen.wait(soon()), "the others give up"));
    const Rank peer = 3 - m.rank();
    m.t.require_ok(m.e.connect(addresses, std::array{peer}, soon()), "ranks 1 and 2 connect");
    const std::array both{peer, Rank{0}};
    const Status status = m.e.connect(addresses, both, Deadline::in(milliseconds(100)));
    m.t.expect_equal(status.failure().peer, Rank{0}, "the missing rank");
    m.exchange(peer);
    seen.set();
  };
  CHECK(run_world(3, body, kUnconnected) == "");
}

TEST_CASE("C5: ranks outside the world, and the rank itself, are no neighbours") {
  const auto body = [](Member& m, const AddressBook& addresses) {
    for (const Rank wrong : {m.rank(), m.size(), kNoRank}) {
      const Status status = m.e.connect(addresses, std::array{wrong}, Deadline::in(seconds(1)));
      m.t.expect_equal(status.code(), Code::invalid_argument, "a wrong neighbour is refused");
    }
  };
  CHECK(run_world(2, body, kUnconnected) == "");
}

TEST_CASE("C6: endpoints with other contexts or channels are strangers to one another") {
  const std::array<std::pair<std::uint64_t, std::uint16_t>, 3> kinds{{{7, 1}, {8, 0}, {8, 1}}};
  std::vector<AddressBook> books(kinds.size(), AddressBook(3));
  const auto body = [&](Member& m) {
    std::vector<std::unique_ptr<Endpoint>> endpoints;
    for (std::size_t i = 0; i < kinds.size(); ++i) {
      auto endpoint = m.transport.open(options_for(m.rank(), m.size(), kinds[i].first, kinds[i].second));
      m.t.require_ok(endpoint, "open one more endpoint");
      endpoints.push_back(std::move(*endpoint));
      books[i][static_cast<std::size_t>(m.rank())] = endpoints.back()->address();
    }
    m.meet();
    std::deque<Completion> completions;
    test::Meeting unused(1);
    for (std::size_t i = 0; i < kinds.size(); ++i)
      m.t.require_ok(endpoints[i]->connect(books[i], everyone_but(m.rank(), m.size()), soon()), "connect it");
    for (std::size_t i = kinds.size(); i-- > 0;) {
      Member other(m.t, m.transport, *endpoints[i], unused, completions);
      for (const Rank peer : everyone_but(m.rank(), m.size())) other.exchange(peer, i);
    }
    for (const Rank peer : everyone_but(m.rank(), m.size())) m.exchange(peer, 99);
    m.meet();
  };
  CHECK(run_world(3, body) == "");
}

TEST_CASE("M1: memory of a kind that the endpoint can not reach is refused") {
  const auto transport = make_backend()->transport_for(0);
  const auto endpoint = transport->open(options_for(0, 1));
  REQUIRE(endpoint.ok());
  std::array<std::byte, 64> memory{};
  const auto host = (*endpoint)->register_memory({memory.data(), memory.size(), MemoryKind::host});
  CHECK(host.ok() == (*endpoint)->capabilities().host_memory);
  if (!(*endpoint)->capabilities().cuda_memory)
    CHECK((*endpoint)->register_memory({memory.data(), memory.size(), MemoryKind::cuda}).code() ==
          Code::unsupported);
}

}  // namespace
}  // namespace rondel::conformance
