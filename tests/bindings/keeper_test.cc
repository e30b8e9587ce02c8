// SPDX-License-Identifier: Apache-2.0
// The process that serves a job's meeting point is stopped: it lives, its connections stand, and it says
// nothing. The others end and fail in their own time, and name it.
#include <rondel.h>
#include <sys/wait.h>
#include <unistd.h>

#include <catch2/catch.hpp>
#include <chrono>
#include <csignal>
#include <string>
#include <thread>

#include "lib/deadline.h"
#include "tests/bindings/job_world.h"
#include "tests/support/clocks.h"

namespace rondel::test {
namespace {

using std::chrono::milliseconds;
using std::chrono::seconds;

/// Closed until the test opens it to so many processes. Made before they are forked.
class Gate {
 public:
  Gate() { REQUIRE(::pipe(ends_) == 0); }
  ~Gate() {
    for (const int end : ends_) ::close(end);
  }
  Gate(const Gate&) = delete;
  Gate& operator=(const Gate&) = delete;
  void open_to(int processes) const {
    for (int i = 0; i < processes; ++i) REQUIRE(::write(ends_[1], "x", 1) == 1);
  }
  void pass(RankTest& test) const {
    char one = 0;
    test.require(::read(ends_[0], &one, 1) == 1, "the gate opens");
  }

 private:
  int ends_[2] = {-1, -1};
};

/// Returns when all threads of the process have stopped.
void stop(ProcessWorld& world, Rank rank) {
  world.signal(rank, SIGSTOP);
  siginfo_t facts{};
  REQUIRE(::waitid(P_PID, static_cast<id_t>(world.pid_of(rank)), &facts, WSTOPPED | WNOWAIT) == 0);
}

void expect_within(RankTest& test, double limit, Deadline::Clock::time_point begin, std::string_view what) {
  const double took = seconds_since(begin);
  test.expect(took < limit, std::string(what) + " took " + std::to_string(took) + " s, " + last_error().text);
}

constexpr double kStartTimeout = 1.5;
/// A start that fails takes its timeout and about a second, and here some more for a busy machine.
constexpr double kStartLimit = kStartTimeout + 2;

ProcessJobOptions starting_at(Server server) {
  return {.server = server, .start = false, .environment = {{"RONDEL_START_TIMEOUT_S", "1.5"}}};
}

/// Starts and fails in time.
rondel_error_t failed_start(RankTest& test) {
  const auto begin = Deadline::Clock::now();
  rondel_comm_t comm = nullptr;
  expect_status(test, rondel_init(nullptr, &comm), RONDEL_TIMED_OUT, "start");
  expect_within(test, kStartLimit, begin, "the start");
  const rondel_error_t error = last_error();
  test.expect_equal(error.rank, test.rank(), std::string("says who reports: ") + error.text);
  return error;
}

/// Long enough for the ranks that start to come to wait for one that does not.
void let_ranks_meet() { std::this_thread::sleep_for(milliseconds(500)); }

enum class Way { destroy, finalize, finalize_after_failure };

void end(RankTest& test, rondel_comm_t comm, Way way) {
  if (way == Way::finalize_after_failure)
    expect_status(test, rondel_barrier(comm), RONDEL_TIMED_OUT, "a barrier without rank 0");
  const auto begin = Deadline::Clock::now();
  if (way == Way::destroy) {
    expect_status(test, rondel_destroy(comm), RONDEL_OK, "destroy");
    expect_within(test, 0.9, begin, "destroy");
  } else {
    const bool failed = way == Way::finalize_after_failure;
    expect_status(test, rondel_finalize(comm), RONDEL_TIMED_OUT, "finalize");
    expect_within(test, failed ? 0.9 : 1 + 1.8, begin, "finalize");
  }
}

}  // namespace

TEST_CASE("a stopped rank 0 that serves the meeting point holds up nobody's end") {
  const Way way = GENERATE(Way::destroy, Way::finalize, Way::finalize_after_failure);
  const Gate gate;
  ProcessJob job(3, {.server = Server::rank_0, .timeout_seconds = "1", .environment = {}},
                 [&gate, way](RankTest& test, const Voice& voice, rondel_comm_t comm) {
                   require_ok(test, rondel_barrier(comm), comm, "barrier");
                   voice.say("running");
                   gate.pass(test);
                   end(test, comm, way);
                 });
  for (Rank rank = 0; rank < 3; ++rank)
    REQUIRE(job.world().heard(rank, "running", Deadline::in(seconds(20))));
  stop(job.world(), 0);
  gate.open_to(2);
  for (const Rank rank : {1, 2}) {
    const Ending ending = job.world().wait(rank, Deadline::in(seconds(60)));
    CHECK(ending.exit_code == 0);
  }
  job.world().signal(0, SIGKILL);
  CHECK(job.end(seconds(10), 0) == "");
}

TEST_CASE("a start whose store falls silent names the one who keeps it, in time") {
  const Server server = GENERATE(Server::rank_0, Server::launcher);
  constexpr Rank kRanks = 6, kLate = 5;
  const Gate gate;
  ProcessJob job(kRanks, starting_at(server),
                 [&gate, server](RankTest& test, const Voice& voice, rondel_comm_t) {
                   voice.say("starting");
                   if (test.rank() == kLate) gate.pass(test);  // and finds it silent from the beginning
                   const rondel_error_t error = failed_start(test);
                   const std::string text = error.text;
                   const bool by_rank_0 = server == Server::rank_0;
                   test.expect_equal(error.peer, by_rank_0 ? 0 : -1, "names who is silent: " + text);
                   test.expect(text.find(by_rank_0 ? "rank 0" : "launcher") != std::string::npos, text);
                   test.expect(text.find("did not come") == std::string::npos,
                               "knows that it does not know who is missing: " + text);
                 });
  const Rank keeper = server == Server::rank_0 ? 0 : kRanks;
  for (Rank rank = 0; rank < kRanks; ++rank)
    REQUIRE(job.world().heard(rank, "starting", Deadline::in(seconds(20))));
  let_ranks_meet();
  stop(job.world(), keeper);
  gate.open_to(1);
  for (Rank rank = 0; rank < kRanks; ++rank)
    if (rank != keeper) CHECK(job.world().wait(rank, Deadline::in(seconds(60))).exit_code == 0);
  job.world().signal(keeper, SIGKILL);
  CHECK(job.end(seconds(10), keeper) == "");
}

TEST_CASE("a rank 0 that stops while a launcher's job starts is named, in time") {
  constexpr Rank kRanks = 3, kLate = 2;
  const Gate gate;
  ProcessJob job(kRanks, starting_at(Server::launcher),
                 [&gate](RankTest& test, const Voice& voice, rondel_comm_t) {
                   voice.say("starting");
                   if (test.rank() == kLate) gate.pass(test);
                   const rondel_error_t error = failed_start(test);
                   test.expect_equal(error.peer, 0, std::string("names rank 0: ") + error.text);
                 });
  for (Rank rank = 0; rank < kRanks; ++rank)
    REQUIRE(job.world().heard(rank, "starting", Deadline::in(seconds(20))));
  let_ranks_meet();
  stop(job.world(), 0);
  gate.open_to(1);
  for (const Rank rank : {1, 2}) CHECK(job.world().wait(rank, Deadline::in(seconds(60))).exit_code == 0);
  job.world().signal(0, SIGKILL);
  CHECK(job.end(seconds(10), 0) == "");
}

}  // namespace rondel::test
