// SPDX-License-Identifier: Apache-2.0
// A rank whose host falls silent while its connections stand: every other rank names it after the silence
// limit, long before the operation's time is over.
#include <rondel.h>

#include <catch2/catch.hpp>
#include <chrono>
#include <csignal>
#include <string>
#include <vector>

#include "lib/deadline.h"
#include "tests/bindings/job_world.h"
#include "tests/support/silent_host.h"

namespace rondel::test {
namespace {

using std::chrono::seconds;

constexpr Rank kRanks = 4, kSilent = 2;

/// As a host without power: answers nothing and does nothing.
[[noreturn]] void fall_silent(RankTest& test, const Voice& voice) {
  test.require(silence_connections() >= 4, "links to both neighbours, store and liveness fall silent");
  voice.say("silent");
  for (;;) ::raise(SIGSTOP);
}

void expect_loss(RankTest& test, rondel_comm_t comm) {
  std::vector<float> data(100'000, 1.0F);
  rondel_status_t status = RONDEL_OK;
  while (status == RONDEL_OK)
    status = rondel_allreduce(comm, data.data(), data.data(), data.size(), RONDEL_FLOAT32, RONDEL_MAX);
  const rondel_error_t error = last_error(comm);
  const std::string text = error.text;
  test.expect(status == RONDEL_PEER_LOST, "lost: " + text);
  test.expect_equal(error.peer, kSilent, "names the silent rank: " + text);
  test.expect(text.find("has not answered for") != std::string::npos, "says why: " + text);
  test.expect(text.find("MTU") != std::string::npos, "says what to look at: " + text);
}

}  // namespace

TEST_CASE("a rank whose host falls silent is named by all others after the silence limit") {
  ProcessJob job(
      kRanks,
      {.timeout_seconds = "60",
       .environment = {{"RONDEL_SILENCE_TIMEOUT_S", "1"}, {"RONDEL_TRANSPORT", "tcp"}}},
      [](RankTest& test, const Voice& voice, rondel_comm_t comm) {
        std::vector<float> data(100'000, 1.0F);  // enough to connect the ranks that the sums need
        require_ok(test,
                   rondel_allreduce(comm, data.data(), data.data(), data.size(), RONDEL_FLOAT32, RONDEL_MAX),
                   comm, "allreduce");
        if (test.rank() == kSilent) fall_silent(test, voice);
        expect_loss(test, comm);
        voice.say("failed");
        rondel_destroy(comm);
      });
  REQUIRE(job.world().heard(kSilent, "silent", Deadline::in(seconds(20))));
  const Deadline deadline = Deadline::in(seconds(5));  // the limit, looks a second apart, the verdict
  for (Rank rank = 0; rank < kRanks; ++rank)
    CHECK((rank == kSilent || job.world().heard(rank, "failed", deadline)));
  job.world().signal(kSilent, SIGKILL);
  CHECK(job.end(seconds(10), kSilent) == "");
}

}  // namespace rondel::test
