// SPDX-License-Identifier: Apache-2.0
// Programs that wait in an event loop of their own, and for long, see failures in time.
#include <poll.h>
#include <rondel.h>

#include <catch2/catch.hpp>
#include <csignal>
#include <string>
#include <vector>

#include "lib/deadline.h"
#include "tests/bindings/job_world.h"
#include "tests/support/clocks.h"

namespace rondel::test {
namespace {

using std::chrono::seconds;

/// Each wait may take ten seconds; what is tested must be over long before one has.
rondel_status_t finish_in_event_loop(RankTest& test, rondel_comm_t comm, rondel_request_t& request) {
  rondel_status_t status = RONDEL_OK;
  for (int done = 0; done == 0;) {
    int descriptor = -1;
    require_ok(test, rondel_event_descriptor(comm, &descriptor), comm, "descriptor");
    pollfd ready{descriptor, POLLIN, 0};
    test.require(::poll(&ready, 1, 10'000) == 1, "readable");
    status = rondel_test(&request, &done);
  }
  return status;
}

}  // namespace

TEST_CASE("an event loop that waits long sees a rank's death") {
  const bool reachable = GENERATE(false, true);
  ProcessJob job(3, {.environment = {}}, [reachable](RankTest& test, const Voice& voice, rondel_comm_t comm) {
    constexpr std::size_t kCount = 300'000;
    std::vector<float> heap(kCount);
    void* data = heap.data();
    if (reachable) require_ok(test, rondel_alloc(kCount * sizeof(float), &data), nullptr, "alloc");
    rondel_status_t status = rondel_barrier(comm);
    voice.say("running");
    while (status == RONDEL_OK) {
      rondel_request_t request = nullptr;
      status = rondel_iallreduce(comm, data, data, kCount, RONDEL_FLOAT32, RONDEL_MAX, &request);
      if (status == RONDEL_OK) status = finish_in_event_loop(test, comm, request);
    }
    voice.say("failed");
    expect_status(test, status, RONDEL_PEER_LOST, "status");
    test.expect_equal(last_error(comm).peer, 1, last_error(comm).text);
    rondel_destroy(comm);
  });
  for (Rank rank = 0; rank < 3; ++rank)
    REQUIRE(job.world().heard(rank, "running", Deadline::in(seconds(20))));
  job.world().signal(1, SIGKILL);
  const Deadline deadline = Deadline::in(seconds(3));
  for (const Rank rank : {0, 2}) CHECK(job.world().heard(rank, "failed", deadline));
  CHECK(job.end(seconds(10), 1) == "");
}

TEST_CASE("an event loop that waits long sees an operation's timeout") {
  ProcessJob job(2, {.timeout_seconds = "1", .environment = {}},
                 [](RankTest& test, const Voice& voice, rondel_comm_t comm) {
                   float value = 1;
                   require_ok(test, rondel_barrier(comm), comm, "barrier");
                   voice.say("ready");
                   if (test.rank() == 1) {
                     while (true) ::pause();
                   }
                   rondel_request_t request = nullptr;
                   require_ok(
                       test, rondel_iallreduce(comm, &value, &value, 1, RONDEL_FLOAT32, RONDEL_SUM, &request),
                       comm, "start");
                   const auto begun = Deadline::Clock::now();
                   expect_status(test, finish_in_event_loop(test, comm, request), RONDEL_TIMED_OUT, "status");
                   test.expect(seconds_since(begun) < 5, "in time");
                   rondel_destroy(comm);
                   voice.say("over");
                 });
  CHECK(job.world().heard(0, "over", Deadline::in(seconds(20))));
  job.world().signal(1, SIGKILL);
  CHECK(job.end(seconds(10), 1) == "");
}

TEST_CASE("an event loop that waits long sees the first message of a pair") {
  ProcessJob job(2, {.environment = {}}, [](RankTest& test, const Voice&, rondel_comm_t comm) {
    rondel_comm_t other = nullptr;
    require_ok(test, rondel_duplicate(comm, &other), comm, "duplicate");
    std::int32_t word = test.rank();
    rondel_request_t request = nullptr;
    const auto begun = Deadline::Clock::now();
    if (test.rank() == 1) {
      require_ok(test, rondel_irecv(comm, &word, 1, RONDEL_INT32, 0, &request), comm, "start");
      int descriptor = -1;
      require_ok(test, rondel_event_descriptor(comm, &descriptor), comm, "descriptor");
    }
    require_ok(test, rondel_barrier(other), other, "rank 1 waits");
    if (test.rank() == 0)
      require_ok(test, rondel_isend(comm, &word, 1, RONDEL_INT32, 1, &request), comm, "start");
    expect_status(test, finish_in_event_loop(test, comm, request), RONDEL_OK, "status");
    test.expect(seconds_since(begun) < 5, "at once");
    test.expect_equal(word, 0, "the word");
    require_ok(test, rondel_finalize(comm), nullptr, "end");
  });
  CHECK(job.end(seconds(30)) == "");
}

}  // namespace rondel::test
