// SPDX-License-Identifier: Apache-2.0
#include "launcher/supervisor.h"

#include <catch2/catch.hpp>
#include <cerrno>
#include <csignal>
#include <vector>

#include "launcher/job_report.h"

using Catch::Matchers::Contains;
using rondel::Ending;
using rondel::RankEnding;
using rondel::Supervisor;
using std::chrono::milliseconds;
using std::chrono::seconds;

namespace {

const Supervisor::Time kStart{};

struct World {
  explicit World(rondel::Rank ranks) : supervisor(ranks, seconds(5), kStart) {}
  void end(std::vector<RankEnding> together, milliseconds at) {
    supervisor.ranks_ended(together, kStart + at);
  }
  int due(milliseconds at) const { return supervisor.signal_due(kStart + at); }
  Supervisor supervisor;
};

constexpr Ending exited(int code) { return {code, 0}; }
constexpr Ending killed(int signal) { return {0, signal}; }

}  // namespace

TEST_CASE("a job whose ranks all end well ends with 0, whatever the order") {
  World world(3);
  world.end({{2, exited(0)}}, milliseconds(10));
  CHECK(world.due(seconds(100)) == 0);
  CHECK_FALSE(world.supervisor.all_ended());
  world.end({{0, exited(0)}, {1, exited(0)}}, seconds(200));
  CHECK(world.supervisor.all_ended());
  CHECK(world.supervisor.exit_code() == 0);
  CHECK_FALSE(world.supervisor.first_failed().has_value());
}

TEST_CASE("the first failure stops all: SIGTERM, a grace, SIGKILL") {
  World world(4);
  world.end({{2, exited(3)}}, seconds(1));
  CHECK(world.due(seconds(1)) == SIGTERM);
  CHECK(world.due(milliseconds(5999)) == SIGTERM);
  CHECK(world.due(seconds(6)) == SIGKILL);
  world.end({{0, killed(SIGTERM)}, {1, exited(9)}}, seconds(2));
  world.end({{3, killed(SIGKILL)}}, seconds(6));
  CHECK(world.supervisor.exit_code() == 3);
  CHECK(world.supervisor.first_failed() == 2);
  CHECK(world.supervisor.records()[1].stopped);
  CHECK_FALSE(world.supervisor.records()[2].stopped);
}

TEST_CASE("a crash decides with 128 + signal") {
  World world(2);
  world.end({{1, killed(SIGABRT)}}, seconds(1));
  CHECK(world.supervisor.exit_code() == 134);
}

TEST_CASE("of failures seen together a crash comes first, then the lowest rank") {
  World crash(4);
  crash.end({{0, exited(1)}, {3, killed(SIGSEGV)}, {2, exited(1)}}, seconds(1));
  CHECK(crash.supervisor.first_failed() == 3);
  CHECK(crash.supervisor.exit_code() == 139);
  World codes(4);
  codes.end({{3, exited(7)}, {1, exited(5)}}, seconds(1));
  CHECK(codes.supervisor.first_failed() == 1);
  CHECK(codes.supervisor.exit_code() == 5);
}

TEST_CASE("who fell first is the cause, though others that met its loss end sooner") {
  World world(4);
  world.supervisor.ranks_ended(std::vector<RankEnding>{{0, exited(1)}}, kStart + seconds(1), 2);
  CHECK(world.due(seconds(1)) == SIGTERM);
  CHECK_FALSE(world.supervisor.cause_is_known());
  world.end({{1, exited(1)}}, milliseconds(1100));
  world.end({{2, exited(3)}}, milliseconds(1200));
  CHECK(world.supervisor.cause_is_known());
  CHECK(world.supervisor.first_failed() == 2);
  CHECK_FALSE(world.supervisor.records()[2].stopped);
  CHECK(world.supervisor.exit_code() == 3);
  world.end({{3, exited(9)}}, milliseconds(1300));
  CHECK(world.supervisor.exit_code() == 3);
}

TEST_CASE("who fell first but ends well, or only when stopped, is no failure") {
  for (const Ending ending : {exited(0), killed(SIGTERM)}) {
    World world(2);
    world.supervisor.ranks_ended(std::vector<RankEnding>{{0, exited(5)}}, kStart + seconds(1), 1);
    world.end({{1, ending}}, seconds(2));
    CHECK(world.supervisor.cause_is_known());
    CHECK(world.supervisor.first_failed() == 0);
    CHECK(world.supervisor.exit_code() == 5);
  }
}

TEST_CASE("a signal stops the job, a second one kills it at once") {
  World world(2);
  world.supervisor.signalled(SIGINT, kStart + seconds(1));
  CHECK(world.due(seconds(1)) == SIGTERM);
  world.supervisor.signalled(SIGTERM, kStart + seconds(2));
  CHECK(world.due(seconds(2)) == SIGKILL);
  world.end({{0, exited(1)}, {1, killed(SIGKILL)}}, seconds(2));
  CHECK(world.supervisor.exit_code() == 130);
  CHECK_FALSE(world.supervisor.first_failed().has_value());
}

TEST_CASE("a signal during the grace after a failure is the first one, and keeps the failure's code") {
  World world(2);
  world.end({{0, exited(4)}}, seconds(1));
  world.supervisor.signalled(SIGINT, kStart + seconds(2));
  CHECK(world.due(seconds(2)) == SIGTERM);
  world.supervisor.signalled(SIGINT, kStart + seconds(3));
  CHECK(world.due(seconds(3)) == SIGKILL);
  CHECK(world.supervisor.exit_code() == 4);
}

TEST_CASE("other ends have their own codes") {
  World timeout(1);
  timeout.supervisor.timed_out(kStart + seconds(3));
  timeout.end({{0, killed(SIGTERM)}}, seconds(3));
  CHECK(timeout.supervisor.exit_code() == 124);
  World unstarted(3);
  unstarted.supervisor.launch_failed(std::vector<rondel::Rank>{1, 2}, kStart);
  CHECK_FALSE(unstarted.supervisor.all_ended());
  unstarted.end({{0, killed(SIGTERM)}}, seconds(1));
  CHECK(unstarted.supervisor.all_ended());
  CHECK(unstarted.supervisor.exit_code() == 255);
  World closed(1);
  closed.supervisor.output_failed(EPIPE, kStart);
  CHECK(closed.supervisor.exit_code() == 141);
  World full(1);
  full.supervisor.output_failed(ENOSPC, kStart);
  CHECK(full.supervisor.exit_code() == 1);
}

TEST_CASE("ranks of a lost host end the job, and nobody waits for them") {
  World world(4);
  world.supervisor.host_lost(std::vector<rondel::Rank>{2, 3}, kStart + seconds(1));
  CHECK(world.due(seconds(1)) == SIGTERM);
  CHECK(world.supervisor.first_failed() == 2);
  CHECK(world.supervisor.exit_code() == 255);
  world.end({{0, killed(SIGTERM)}, {1, exited(1)}}, seconds(2));
  CHECK(world.supervisor.all_ended());
  CHECK(world.supervisor.exit_code() == 255);
  CHECK(rondel::ending_text(world.supervisor.records()[3]) == "lost with its host");
  Supervisor::Record under_a_shell;
  under_a_shell.ending = exited(137);
  CHECK(rondel::ending_text(under_a_shell) == "exit code 137 (as of SIGKILL, maybe out of memory)");
  under_a_shell.ending = exited(255);
  CHECK(rondel::ending_text(under_a_shell) == "exit code 255");
}

TEST_CASE("of a host that is lost late, the rank that fell first is the first failure") {
  World world(3);
  world.supervisor.ranks_ended(std::vector<RankEnding>{{0, exited(1)}}, kStart + seconds(1), 2);
  CHECK_FALSE(world.supervisor.cause_is_known());
  world.supervisor.host_lost(std::vector<rondel::Rank>{2}, kStart + seconds(2));
  CHECK(world.supervisor.first_failed() == 2);
  CHECK(world.supervisor.exit_code() == 255);
  world.end({{1, killed(SIGTERM)}}, seconds(2));
  CHECK(world.supervisor.all_ended());
}

TEST_CASE("a host that is lost when its ranks have ended changes nothing") {
  World world(2);
  world.end({{0, exited(0)}, {1, exited(0)}}, seconds(1));
  world.supervisor.host_lost(std::vector<rondel::Rank>{0, 1}, kStart + seconds(2));
  CHECK(world.supervisor.exit_code() == 0);
  CHECK_FALSE(world.supervisor.first_failed().has_value());
}

TEST_CASE("the report begins with the first cause") {
  World world(3);
  world.end({{1, killed(SIGKILL)}}, milliseconds(1500));
  world.end({{0, killed(SIGTERM)}, {2, exited(1)}}, milliseconds(1600));
  const std::vector<rondel::RankProcess> processes{{"node", 11}, {"other", 12}, {"node", 13}};
  const std::vector<std::string> error_lines{"Traceback", "ValueError: no"};
  const auto lines = rondel::job_report(world.supervisor, processes, error_lines);
  REQUIRE(lines.size() == 8);
  CHECK_THAT(lines[0],
             Contains("rank 1 failed first: killed by signal 9 (SIGKILL), maybe out of memory after 1.5 s"));
  CHECK_THAT(lines[3], Contains("ValueError: no"));
  CHECK_THAT(lines[5], Contains("1  other") && Contains("12") && Contains("killed by signal 9"));
  CHECK_THAT(lines[6], Contains("stopped by launcher (SIGTERM)"));
  CHECK_THAT(lines[7], Contains("stopped by launcher (exit code 1)"));
}

TEST_CASE("the report of a large job stays small, ranks that never started are told apart") {
  World world(100);
  world.end({{70, exited(2)}}, seconds(1));
  const auto lines =
      rondel::job_report(world.supervisor, std::vector<rondel::RankProcess>(100, {"node", 5}), {});
  CHECK(lines.size() == 19);
  CHECK_THAT(lines[2], Contains("70") && Contains("exit code 2"));
  CHECK(lines.back() == "and 84 more");
  World few(2);
  few.supervisor.launch_failed(std::vector<rondel::Rank>{1}, kStart);
  CHECK_THAT(
      rondel::job_report(few.supervisor, std::vector<rondel::RankProcess>{{"node", 5}, {"node", -1}}, {})
          .back(),
      Contains("never started"));
}

TEST_CASE("of a rank that others wait for: how it ended, and its last words, when there is anything to say") {
  rondel::Supervisor::Record record;
  CHECK(rondel::late_rank_report(3, "n1", record, {}).empty());
  const std::vector<std::string> words{"loading", "no such file"};
  CHECK(rondel::late_rank_report(3, "n1", record, words) ==
        std::vector<std::string>{"rank 3 on n1: still running",
                                 "the last lines of its standard error:", "    loading", "    no such file"});
  record.ending = rondel::Ending{0, 0};
  CHECK(rondel::late_rank_report(3, "n1", record, {}) ==
        std::vector<std::string>{"rank 3 on n1: exit code 0"});
}
