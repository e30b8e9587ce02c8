// SPDX-License-Identifier: Apache-2.0
// A member, or a job server, that says nothing any more although its connection stands: everybody else is
// told in time who it is.
#include <array>
#include <catch2/catch.hpp>
#include <chrono>
#include <memory>
#include <string>
#include <thread>
#include <vector>

#include "lib/auth.h"
#include "lib/frame.h"
#include "lib/liveness/member.h"
#include "lib/liveness/messages.h"
#include "lib/store/dial.h"
#include "lib/store/socket.h"
#include "lib/store/tcp_server.h"
#include "tests/support/silent_host.h"

namespace rondel::liveness {
namespace {

using std::chrono::milliseconds;
using std::chrono::seconds;

constexpr Context kWorld = 77;
constexpr Rank kSize = 4, kSilent = 1;
const Deadline::Clock::duration kPromised = seconds(10);  // what users are told of a silent host

/// A job of four ranks, three of them true members; rank 1 joins and never says anything again.
class World {
 public:
  explicit World(milliseconds silence = store::kUsualSilence)
      : server_(std::move(*TcpServer::start({.silence = silence}, secret_))) {
    auto dialled = store::dial(server_->address(), secret_, store::kMemberRole, Deadline::in(seconds(20)));
    if (!dialled.ok()) FAIL(dialled.status().text());
    silent_ = std::move(dialled->fd);
    const Bytes join = framed(encode(ToServer(Join{kWorld, kSilent, kSize, "nodeb"})));
    REQUIRE(store::send_all(silent_.get(), join, Deadline::in(seconds(20))).ok());
    for (const Rank rank : {0, 2, 3}) {
      auto member = Member::connect(server_->address(), secret_, Deadline::in(seconds(20)), silence);
      if (!member.ok()) FAIL(member.status().text());
      watches_.push_back((*member)->join(kWorld, rank, kSize, "node" + std::to_string(rank)));
      members_.push_back(std::move(*member));
    }
    const auto deadline = Deadline::in(seconds(20));
    while (server_->arrived_ranks().size() < kSize && !deadline.passed()) std::this_thread::yield();
    REQUIRE(server_->arrived_ranks().size() == kSize);
  }

  TcpServer& server() { return *server_; }
  int silent_socket() const { return silent_.get(); }
  Member& member(std::size_t index) { return *members_.at(index); }
  const std::vector<std::shared_ptr<Watch>>& watches() const { return watches_; }

  /// All true members hear the same within `limit`; what it is.
  Incident incident_within(Deadline::Clock::duration limit) const {
    const auto deadline = Deadline::in(limit);
    for (const auto& watch : watches_) REQUIRE(Member::await(*watch, deadline));
    const Incident& first = watches_.front()->incident();
    for (const auto& watch : watches_) {
      CHECK(watch->incident().code == first.code);
      CHECK(watch->incident().guilty == first.guilty);
      CHECK(watch->incident().cause == first.cause);
    }
    return first;
  }

 private:
  const Secret secret_ = *Secret::generate();
  std::unique_ptr<TcpServer> server_;
  UniqueFd silent_;
  std::vector<std::unique_ptr<Member>> members_;
  std::vector<std::shared_ptr<Watch>> watches_;
};

TEST_CASE("a member that answers nothing is named to all others, whomever the one that waits suspects") {
  World world;
  for (const auto& watch : world.watches()) watch->enter();
  world.member(0).overdue(kWorld, 3, 1, "allreduce");
  const Incident incident = world.incident_within(seconds(3));
  CHECK(incident.code == Code::timed_out);
  CHECK(incident.guilty == kSilent);
  CHECK(incident.host == "nodeb");
  CHECK(incident.cause == "rank 1 (host nodeb) does not answer (stopped or unreachable)");
}

TEST_CASE("a member whose host falls silent is named to all others in time, although nobody waits",
          "[.silence]") {
  World world;
  REQUIRE(test::silence(world.silent_socket()));
  const Incident incident = world.incident_within(kPromised);
  CHECK(incident.code == Code::peer_lost);
  CHECK(incident.guilty == kSilent);
  CHECK_THAT(incident.cause,
             Catch::StartsWith("rank 1 (host nodeb) is lost: its connection to the job server broke: ") &&
                 Catch::EndsWith("Connection timed out"));
}

TEST_CASE("a job server whose host falls silent is lost to all members in time", "[.silence]") {
  World world;
  REQUIRE(test::silence_connections(world.server().port()) == kSize);
  // Beats alone show it: the next one is due in a second, and the kernel counts coarsely.
  const Incident incident = world.incident_within(kPromised + seconds(2));
  CHECK(incident.code == Code::peer_lost);
  CHECK_THAT(incident.cause, Catch::StartsWith("lost the job server at " + world.server().address()) &&
                                 Catch::EndsWith("Connection timed out"));
}

TEST_CASE("RONDEL_SILENCE_TIMEOUT_S shortens both", "[.silence]") {
  constexpr seconds kShort{4};
  {
    World world(kShort);
    REQUIRE(test::silence(world.silent_socket()));
    CHECK(world.incident_within(kShort).guilty == kSilent);
  }
  World world(kShort);
  REQUIRE(test::silence_connections(world.server().port()) == kSize);
  CHECK_THAT(world.incident_within(kShort + seconds(2)).cause, Catch::StartsWith("lost the job server"));
}

}  // namespace
}  // namespace rondel::liveness
