// SPDX-License-Identifier: Apache-2.0
#include "lib/liveness/monitor.h"

#include <algorithm>
#include <catch2/catch.hpp>
#include <random>
#include <set>

namespace rondel::liveness {
namespace {

using Instructions = Monitor::Instructions;
using std::chrono::milliseconds;
constexpr Context kWorld = 1;
constexpr Context kRow = 2;

TimePoint at(int ms) { return TimePoint() + std::chrono::hours(1) + milliseconds(ms); }

std::set<MemberId> told(const Instructions& out, Instruction::Kind kind = Instruction::Kind::incident) {
  std::set<MemberId> members;
  for (const Instruction& one : out)
    if (one.kind == kind) members.insert(one.to);
  return members;
}

/// The one incident that all instructions carry.
Incident incident_in(const Instructions& out) {
  REQUIRE_FALSE(out.empty());
  for (const Instruction& one : out) {
    REQUIRE(one.kind == Instruction::Kind::incident);
    CHECK(one.incident.cause == out.front().incident.cause);
    CHECK(one.incident.context == out.front().incident.context);
  }
  return out.front().incident;
}

/// `size` ranks of kWorld; member 100 + r is rank r on host "h<r>".
struct World {
  Monitor monitor;
  explicit World(Rank size) {
    for (Rank rank = 0; rank < size; ++rank)
      CHECK(monitor.joined(member(rank), kWorld, rank, size, "h" + std::to_string(rank)).empty());
  }
  static MemberId member(Rank rank) { return static_cast<MemberId>(100 + rank); }
  void answer(Rank rank, std::uint64_t entered, int ms) {
    CHECK(monitor.beat(member(rank), {{kWorld, entered}}, at(ms)).empty());
  }
};

TEST_CASE("a death is told to every other rank at once") {
  World world(4);
  const auto out = world.monitor.disconnected(World::member(2));
  CHECK(told(out) == std::set<MemberId>{100, 101, 103});
  const Incident incident = incident_in(out);
  CHECK(incident.code == Code::peer_lost);
  CHECK(incident.guilty == 2);
  CHECK(incident.host == "h2");
  CHECK(incident.cause == "rank 2 (host h2) died: its process ended without leaving");
}

TEST_CASE("a connection that broke is told with the system's words") {
  World world(2);
  const Incident incident = incident_in(world.monitor.disconnected(World::member(1), "Connection timed out"));
  CHECK(incident.cause ==
        "rank 1 (host h1) is lost: its connection to the job server broke: Connection timed out");
}

TEST_CASE("the end of a rank that left, or said goodbye, is no incident") {
  World world(3);
  CHECK(world.monitor.left(World::member(1), kWorld).empty());
  CHECK(world.monitor.disconnected(World::member(1)).empty());
  CHECK(world.monitor.goodbye(World::member(2)).empty());
  CHECK(world.monitor.disconnected(World::member(2)).empty());
  CHECK(world.monitor.next_tick() == TimePoint::max());
}

TEST_CASE("members that never joined, or are unknown, change nothing") {
  World world(2);
  CHECK(world.monitor.disconnected(999).empty());
  CHECK(world.monitor.left(999, kWorld).empty());
  CHECK(world.monitor.goodbye(999).empty());
  CHECK(world.monitor.report(999, {kWorld, Code::aborted, 0, "", "x", ""}).empty());
  CHECK(world.monitor.suspect(999, kWorld, 1, "x", at(0)).empty());
  CHECK(world.monitor.overdue(999, kWorld, 1, 1, "x", at(0)).empty());
  CHECK(world.monitor.beat(999, {{kWorld, 5}}, at(0)).empty());
  CHECK(world.monitor.suspect(World::member(0), kRow, 1, "x", at(0)).empty());
  CHECK(world.monitor.next_tick() == TimePoint::max());
}

TEST_CASE("a report becomes the incident as it stands, for its reporter too") {
  World world(3);
  const auto out =
      world.monitor.report(World::member(1), {kWorld, Code::mismatch, 2, "", "shapes differ", "fix"});
  CHECK(told(out) == std::set<MemberId>{100, 101, 102});
  const Incident incident = incident_in(out);
  CHECK(incident.code == Code::mismatch);
  CHECK(incident.cause == "shapes differ");
  CHECK(incident.hint == "fix");
  CHECK(incident.host == "h2");  // known from its joining
}

TEST_CASE("the first incident of a context is its only one") {
  World world(3);
  REQUIRE(world.monitor.report(World::member(0), {kWorld, Code::aborted, 0, "", "first", ""}).size() == 3);
  CHECK(world.monitor.report(World::member(1), {kWorld, Code::aborted, 1, "", "second", ""}).empty());
  CHECK(world.monitor.disconnected(World::member(2)).empty());
  CHECK(world.monitor.suspect(World::member(0), kWorld, 1, "x", at(0)).empty());
  CHECK(world.monitor.overdue(World::member(0), kWorld, 1, 1, "x", at(0)).empty());
  CHECK(world.monitor.tick(at(10'000)).empty());
  CHECK(world.monitor.next_tick() == TimePoint::max());
}

TEST_CASE("who joins after the incident is told alone") {
  Monitor monitor;
  CHECK(monitor.joined(1, kWorld, 0, 3, "a").empty());
  CHECK(monitor.joined(2, kWorld, 1, 3, "b").empty());
  REQUIRE(told(monitor.disconnected(2)) == std::set<MemberId>{1});
  const auto out = monitor.joined(3, kWorld, 2, 3, "c");
  CHECK(told(out) == std::set<MemberId>{3});
  CHECK(incident_in(out).guilty == 1);
}

TEST_CASE("a suspected rank that lives is blamed for its broken link after the grace") {
  World world(3);
  CHECK(world.monitor.suspect(World::member(0), kWorld, 2, "Connection reset by peer", at(0)).empty());
  CHECK(world.monitor.next_tick() == at(300));
  CHECK(world.monitor.tick(at(299)).empty());
  const auto out = world.monitor.tick(at(300));
  CHECK(told(out) == std::set<MemberId>{100, 101, 102});
  const Incident incident = incident_in(out);
  CHECK(incident.code == Code::peer_lost);
  CHECK(incident.guilty == 2);
  CHECK(incident.cause ==
        "the connection between rank 0 (host h0) and rank 2 (host h2) broke: Connection reset by peer");
  CHECK(world.monitor.next_tick() == TimePoint::max());
}

TEST_CASE("a suspected rank that dies within the grace died, nothing else") {
  World world(3);
  CHECK(world.monitor.suspect(World::member(0), kWorld, 2, "reset", at(0)).empty());
  const Incident incident = incident_in(world.monitor.disconnected(World::member(2)));
  CHECK(incident.cause.find("rank 2 (host h2) died") == 0);
  CHECK(world.monitor.tick(at(400)).empty());
}

TEST_CASE("a suspected rank that leaves within the grace, or had left, is told as left") {
  for (const bool before : {true, false}) {
    World world(3);
    if (before) CHECK(world.monitor.left(World::member(2), kWorld).empty());
    Instructions out = world.monitor.suspect(World::member(0), kWorld, 2, "end of file", at(0));
    if (!before) out = world.monitor.goodbye(World::member(2));
    CHECK(told(out) == std::set<MemberId>{100, 101});
    const Incident incident = incident_in(out);
    CHECK(incident.code == Code::peer_left);
    CHECK(incident.guilty == 2);
    CHECK(incident.cause == "rank 2 (host h2) left the communicator while rank 0 (host h0) still needed it");
    CHECK(world.monitor.tick(at(400)).empty());
  }
}

TEST_CASE("a suspect that suspects another one is not blamed for the links that it then closed") {
  World world(4);
  // Rank 2 is silent. Rank 0 gives it up and closes its links, which rank 1 tells first and rank 3 later.
  CHECK(world.monitor.suspect(World::member(1), kWorld, 0, "it closed the connection", at(0)).empty());
  CHECK(world.monitor.suspect(World::member(0), kWorld, 2, "no answer", at(1)).empty());
  CHECK(world.monitor.suspect(World::member(3), kWorld, 0, "it closed the connection", at(2)).empty());
  const Incident incident = incident_in(world.monitor.tick(at(300)));
  CHECK(incident.guilty == 2);
  CHECK(incident.cause == "the connection between rank 0 (host h0) and rank 2 (host h2) broke: no answer");
}

TEST_CASE("of two ranks that suspect one another the one that is suspected first is blamed") {
  World world(3);
  CHECK(world.monitor.suspect(World::member(2), kWorld, 0, "it closed the connection", at(0)).empty());
  CHECK(world.monitor.suspect(World::member(0), kWorld, 1, "reset", at(1)).empty());
  CHECK(world.monitor.suspect(World::member(1), kWorld, 0, "reset", at(2)).empty());
  const Incident incident = incident_in(world.monitor.tick(at(300)));
  CHECK(incident.guilty == 1);
  CHECK(incident.cause == "the connection between rank 0 (host h0) and rank 1 (host h1) broke: reset");
}

TEST_CASE("a suspect's own report within the grace is the incident") {
  World world(3);
  CHECK(world.monitor.suspect(World::member(0), kWorld, 2, "reset", at(0)).empty());
  const auto out =
      world.monitor.report(World::member(2), {kWorld, Code::out_of_resources, 2, "", "no memory", ""});
  CHECK(incident_in(out).cause == "no memory");
}

TEST_CASE("a rank that never joined can be suspected") {
  Monitor monitor;
  CHECK(monitor.joined(1, kWorld, 0, 2, "a").empty());
  CHECK(monitor.suspect(1, kWorld, 1, "refused", at(0)).empty());
  CHECK(incident_in(monitor.tick(at(300))).cause.find("rank 0 (host a) and rank 1 broke") !=
        std::string::npos);
}

TEST_CASE("overdue asks every rank that is still there, once") {
  World world(4);
  CHECK(world.monitor.left(World::member(3), kWorld).empty());
  const auto out = world.monitor.overdue(World::member(0), kWorld, 1, 17, "allreduce", at(0));
  CHECK(told(out, Instruction::Kind::poll) == std::set<MemberId>{100, 101, 102});
  CHECK(told(out).empty());
  CHECK(world.monitor.next_tick() == at(700));
  CHECK(world.monitor.overdue(World::member(2), kWorld, 1, 17, "allreduce", at(5)).empty());
  CHECK(world.monitor.next_tick() == at(700));
  CHECK(world.monitor.tick(at(699)).empty());
}

TEST_CASE("a rank that does not answer is blamed before one that lags") {
  World world(4);
  world.answer(3, 16, -500);  // its last beat was before the question
  world.monitor.overdue(World::member(0), kWorld, 1, 17, "allreduce", at(0));
  world.answer(0, 17, 1);
  world.answer(1, 17, 2);
  world.answer(2, 3, 3);
  const auto out = world.monitor.tick(at(700));
  CHECK(told(out) == std::set<MemberId>{100, 101, 102, 103});
  const Incident incident = incident_in(out);
  CHECK(incident.code == Code::timed_out);
  CHECK(incident.guilty == 3);
  CHECK(incident.cause == "rank 3 (host h3) does not answer (stopped or unreachable)");
}

TEST_CASE("the rank that is furthest behind is blamed, the smallest of several") {
  World world(5);
  world.monitor.overdue(World::member(0), kWorld, 1, 17, "allreduce", at(0));
  const std::uint64_t entered[] = {17, 17, 16, 15, 15};
  for (Rank rank = 0; rank < 5; ++rank) world.answer(rank, entered[rank], 10);
  const Incident incident = incident_in(world.monitor.tick(at(700)));
  CHECK(incident.code == Code::timed_out);
  CHECK(incident.guilty == 3);
  CHECK(incident.cause == "rank 3 (host h3) has not entered allreduce #17; it is at #15");
}

TEST_CASE("an operation that is described with its number keeps the description") {
  World world(2);
  world.monitor.overdue(World::member(0), kWorld, 1, 4, "allreduce #4 of 8 float32 sum", at(0));
  world.answer(0, 4, 1);
  world.answer(1, 3, 1);
  CHECK(incident_in(world.monitor.tick(at(700))).cause ==
        "rank 1 (host h1) has not entered allreduce #4 of 8 float32 sum; it is at #3");
}

TEST_CASE("a rank that left before the operation is blamed as left; one that left after it is not") {
  World world(4);
  world.answer(2, 16, -10);
  CHECK(world.monitor.left(World::member(2), kWorld).empty());
  world.answer(3, 17, -10);
  CHECK(world.monitor.left(World::member(3), kWorld).empty());
  world.monitor.overdue(World::member(0), kWorld, 1, 17, "allreduce", at(0));
  world.answer(0, 17, 1);
  world.answer(1, 17, 1);
  const Incident incident = incident_in(world.monitor.tick(at(700)));
  CHECK(incident.code == Code::peer_left);
  CHECK(incident.guilty == 2);
}

TEST_CASE("when all have entered, the peer that was waited for is blamed") {
  World world(3);
  world.monitor.overdue(World::member(0), kWorld, 2, 9, "broadcast", at(0));
  for (Rank rank = 0; rank < 3; ++rank) world.answer(rank, 9, 1);
  const Incident incident = incident_in(world.monitor.tick(at(700)));
  CHECK(incident.code == Code::timed_out);
  CHECK(incident.guilty == 2);
  CHECK(incident.cause ==
        "rank 2 (host h2) has entered broadcast #9, but what rank 0 (host h0) waits for did not arrive from "
        "it");
}

TEST_CASE("an operation without a number, as a send to one rank, is blamed on its peer") {
  World world(3);
  world.monitor.overdue(World::member(0), kWorld, 2, 0, "recv #1 of 8 float32", at(0));
  for (Rank rank = 0; rank < 3; ++rank) world.answer(rank, 4, 1);
  const Incident incident = incident_in(world.monitor.tick(at(700)));
  CHECK(incident.guilty == 2);
  CHECK(
      incident.cause ==
      "rank 2 (host h2) has not answered recv #1 of 8 float32 of rank 0 (host h0) with a matching call; its "
      "newest collective is #4");
}

TEST_CASE("when all have entered and no peer was named, nobody is blamed") {
  World world(2);
  world.monitor.overdue(World::member(0), kWorld, kNoRank, 9, "barrier", at(0));
  for (Rank rank = 0; rank < 2; ++rank) world.answer(rank, 9, 1);
  const Incident incident = incident_in(world.monitor.tick(at(700)));
  CHECK(incident.guilty == kNoRank);
  CHECK(incident.code == Code::timed_out);
}

TEST_CASE("a rank that never joined is blamed before one that lags") {
  Monitor monitor;
  CHECK(monitor.joined(1, kWorld, 0, 4, "a").empty());
  CHECK(monitor.joined(2, kWorld, 1, 4, "b").empty());
  CHECK(monitor.joined(3, kWorld, 3, 4, "d").empty());
  monitor.overdue(1, kWorld, 1, 1, "barrier", at(0));
  for (const MemberId member : {1U, 2U, 3U}) monitor.beat(member, {{kWorld, 0}}, at(1));
  const Incident incident = incident_in(monitor.tick(at(700)));
  CHECK(incident.guilty == 2);
  CHECK(incident.cause == "rank 2 never joined this communicator");
}

TEST_CASE("a rank that joins while the others are asked is asked too") {
  Monitor monitor;
  CHECK(monitor.joined(1, kWorld, 0, 2, "a").empty());
  monitor.overdue(1, kWorld, 1, 1, "barrier", at(0));
  CHECK(told(monitor.joined(2, kWorld, 1, 2, "b"), Instruction::Kind::poll) == std::set<MemberId>{2});
  monitor.beat(1, {{kWorld, 1}}, at(1));
  monitor.beat(2, {{kWorld, 0}}, at(2));
  CHECK(incident_in(monitor.tick(at(700))).cause ==
        "rank 1 (host b) has not entered barrier #1; it is at #0");
}

TEST_CASE("of several overdue reports the earliest operation is judged") {
  World world(3);
  world.monitor.overdue(World::member(0), kWorld, 1, 17, "allreduce", at(0));
  CHECK(world.monitor.overdue(World::member(1), kWorld, 2, 16, "broadcast", at(100)).empty());
  world.answer(0, 17, 101);
  world.answer(1, 16, 101);
  world.answer(2, 16, 101);
  const auto out = world.monitor.tick(at(700));  // still from the first question
  CHECK(incident_in(out).guilty == 2);
  CHECK(incident_in(out).cause.find("broadcast #16") != std::string::npos);
}

TEST_CASE("a death within the poll's grace is the incident") {
  World world(2);
  world.monitor.overdue(World::member(0), kWorld, 1, 17, "allreduce", at(0));
  CHECK(incident_in(world.monitor.disconnected(World::member(1))).code == Code::peer_lost);
  CHECK(world.monitor.tick(at(700)).empty());
}

TEST_CASE("rank numbers and incidents are per context") {
  World world(4);
  // rank 2 of the world is rank 0 of the row, which rank 3 shares
  CHECK(world.monitor.joined(World::member(2), kRow, 0, 2, "h2").empty());
  CHECK(world.monitor.joined(World::member(3), kRow, 1, 2, "h3").empty());
  const auto out = world.monitor.disconnected(World::member(2));
  std::set<std::pair<MemberId, Context>> pairs;
  for (const Instruction& one : out) {
    pairs.insert({one.to, one.incident.context});
    CHECK(one.incident.guilty == (one.incident.context == kRow ? 0 : 2));
  }
  CHECK(pairs ==
        std::set<std::pair<MemberId, Context>>{{100, kWorld}, {101, kWorld}, {103, kWorld}, {103, kRow}});
}

TEST_CASE("a death concerns only the contexts that were not left") {
  World world(3);
  CHECK(world.monitor.joined(World::member(1), kRow, 0, 2, "h1").empty());
  CHECK(world.monitor.joined(World::member(2), kRow, 1, 2, "h2").empty());
  CHECK(world.monitor.left(World::member(1), kWorld).empty());
  const auto out = world.monitor.disconnected(World::member(1));
  CHECK(told(out) == std::set<MemberId>{102});
  CHECK(incident_in(out).context == kRow);
}

TEST_CASE("an incident in one context leaves the others as they are") {
  World world(2);
  CHECK(world.monitor.joined(World::member(0), kRow, 0, 2, "h0").empty());
  CHECK(world.monitor.joined(World::member(1), kRow, 1, 2, "h1").empty());
  CHECK(incident_in(world.monitor.report(World::member(0), {kRow, Code::aborted, 0, "", "x", ""})).context ==
        kRow);
  CHECK(
      incident_in(world.monitor.report(World::member(0), {kWorld, Code::aborted, 0, "", "y", ""})).context ==
      kWorld);
}

TEST_CASE("two processes that claim one rank, or different sizes, are a mismatch for all") {
  {
    World world(2);
    const auto out = world.monitor.joined(500, kWorld, 1, 2, "elsewhere");
    CHECK(told(out) == std::set<MemberId>{100, 101, 500});
    CHECK(incident_in(out).code == Code::mismatch);
    CHECK(incident_in(out).cause == "two processes are rank 1, on hosts h1 and elsewhere");
  }
  Monitor monitor;
  CHECK(monitor.joined(1, kWorld, 0, 3, "a").empty());
  const auto out = monitor.joined(2, kWorld, 1, 4, "b");
  CHECK(told(out) == std::set<MemberId>{1, 2});
  CHECK(incident_in(out).cause == "rank 1 (host b) says that there are 4 ranks, others that there are 3");
}

TEST_CASE("a context that all have left can be used again") {
  for (int round = 0; round < 3; ++round) {
    static Monitor monitor;
    CHECK(monitor.joined(1, kWorld, 0, 2, "a").empty());
    CHECK(monitor.joined(2, kWorld, 1, 2, "b").empty());
    if (round == 1) {
      CHECK(monitor.report(1, {kWorld, Code::aborted, 0, "", "x", ""}).size() == 2);
    }
    CHECK(monitor.left(1, kWorld).empty());
    CHECK(monitor.left(2, kWorld).empty());
  }
}

TEST_CASE("whatever members say, an incident is told once, and only to ranks that are there") {
  const unsigned seed = std::random_device{}();
  INFO("seed " << seed);
  std::mt19937 random(seed);
  const auto pick = [&random](int below) {
    return static_cast<int>(random() % static_cast<unsigned>(below));
  };
  for (int run = 0; run < 300; ++run) {
    Monitor monitor;
    std::map<MemberId, std::set<Context>> inside;
    std::set<std::pair<MemberId, Context>> told_already;
    int now = 0;
    for (int step = 0; step < 80; ++step) {
      now += pick(200);
      const auto member = static_cast<MemberId>(pick(5));
      const auto context = static_cast<Context>(pick(3));
      const Rank peer = pick(6) - 1;
      const auto sequence = static_cast<std::uint64_t>(pick(4));
      Instructions out;
      switch (pick(8)) {
        case 0:
          if (inside[member].contains(context)) break;
          inside[member].insert(context);
          told_already.erase({member, context});
          out = monitor.joined(member, context, static_cast<Rank>(member), 5, "h");
          break;
        case 1:
          out = monitor.left(member, context);
          inside[member].erase(context);
          break;
        case 2:
          out = monitor.beat(member, {{context, sequence}}, at(now));
          break;
        case 3:
          out = monitor.report(member, {context, Code::aborted, peer, "", "x", ""});
          break;
        case 4:
          out = monitor.suspect(member, context, peer, "e", at(now));
          break;
        case 5:
          out = monitor.overdue(member, context, peer, sequence, "op", at(now));
          break;
        case 6:
          out = pick(2) == 0 ? monitor.disconnected(member) : monitor.goodbye(member);
          inside.erase(member);
          break;
        default:
          out = monitor.tick(at(now));
      }
      for (const Instruction& one : out) {
        if (one.kind != Instruction::Kind::incident) continue;
        CHECK(inside[one.to].contains(one.incident.context));
        CHECK(told_already.insert({one.to, one.incident.context}).second);
        CHECK(one.incident.code != Code::ok);
        CHECK_FALSE(one.incident.cause.empty());
      }
      CHECK(monitor.tick(at(now)).size() <= 15);
    }
  }
}

}  // namespace
}  // namespace rondel::liveness
