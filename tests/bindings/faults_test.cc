// SPDX-License-Identifier: Apache-2.0
// Ranks that die, stop, leave, disagree or abort: every other rank gets an error that names who and why, in
// time.
#include <rondel.h>
#include <sys/resource.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <atomic>
#include <catch2/catch.hpp>
#include <csignal>
#include <cstdlib>
#include <cstring>
#include <functional>
#include <string>
#include <thread>
#include <vector>

#include "lib/deadline.h"
#include "tests/bindings/job_world.h"
#include "tests/support/clocks.h"

namespace rondel::test {
namespace {

using std::chrono::milliseconds;
using std::chrono::seconds;

/// Sums large vectors until that fails; returns the failure. `reachable`: in memory that local ranks load
/// from and store to.
rondel_status_t sum_until_failure(rondel_comm_t comm, bool reachable = false) {
  constexpr std::size_t kCount = 1'000'000;
  std::vector<float> heap(reachable ? 0 : kCount, 1.0F);
  void* data = heap.data();
  if (reachable && rondel_alloc(kCount * sizeof(float), &data) != RONDEL_OK) return RONDEL_INTERNAL;
  rondel_status_t status = RONDEL_OK;
  while (status == RONDEL_OK) status = rondel_allreduce(comm, data, data, kCount, RONDEL_FLOAT32, RONDEL_MAX);
  if (reachable) {  // nobody stores to it any more
    std::memset(data, 7, kCount * sizeof(float));
    const auto* const bytes = static_cast<const unsigned char*>(data);
    for (std::size_t i = 0; i < kCount * sizeof(float); ++i)
      if (bytes[i] != 7) return RONDEL_INTERNAL;
    rondel_free(data);
  }
  return status;
}

/// The failure names `guilty`, with host and operation, and stays: the next call returns it too.
void expect_failure(RankTest& test, rondel_comm_t comm, rondel_status_t status, Rank guilty) {
  const rondel_error_t error = last_error(comm);
  const std::string text = error.text;
  expect_status(test, error.code, status, "code");
  test.expect_equal(error.peer, guilty, "names the guilty rank: " + text);
  test.expect_equal(error.rank, test.rank(), "says who reports");
  test.expect(std::string(error.host) == rondel_host(comm, guilty), "names the host: " + text);
  test.expect(std::string(error.operation).find("allreduce") != std::string::npos,
              "names the operation: " + text);
  test.expect(std::string(error.cause) != "", "says why");
  rondel_error_t poison = RONDEL_ERROR_INIT;
  rondel_failure(comm, &poison);
  expect_status(test, poison.code, status, "the communicator is poisoned");
  expect_status(test, rondel_barrier(comm), status, "and stays so");
}

}  // namespace

TEST_CASE("a rank that is killed in the middle of an operation is named by all others within 2 s") {
  const Rank victim = GENERATE(0, 2);
  const bool reachable = GENERATE(false, true);
  ProcessJob job(4, {.environment = {}},
                 [victim, reachable](RankTest& test, const Voice& voice, rondel_comm_t comm) {
                   require_ok(test, rondel_barrier(comm), comm, "barrier");
                   voice.say("running");
                   const rondel_status_t status = sum_until_failure(comm, reachable);
                   voice.say("failed");
                   expect_status(test, status, RONDEL_PEER_LOST, "status");
                   expect_failure(test, comm, RONDEL_PEER_LOST, victim);
                   const auto begin = Deadline::Clock::now();
                   expect_status(test, rondel_finalize(comm), RONDEL_PEER_LOST, "the end says it too");
                   test.expect(seconds_since(begin) < 1, "and does not wait");
                 });
  for (Rank rank = 0; rank < 4; ++rank)
    REQUIRE(job.world().heard(rank, "running", Deadline::in(seconds(20))));
  job.world().signal(victim, SIGKILL);
  const Deadline deadline = Deadline::in(seconds(2));
  for (Rank rank = 0; rank < 4; ++rank)
    CHECK((rank == victim || job.world().heard(rank, "failed", deadline)));
  CHECK(job.end(seconds(10), victim) == "");
}

TEST_CASE("rank 0 serves the meeting point and is killed") {
  ProcessJob job(3, {.server = Server::rank_0, .environment = {}},
                 [](RankTest& test, const Voice& voice, rondel_comm_t comm) {
                   voice.say("running");
                   const rondel_status_t status = sum_until_failure(comm);
                   voice.say("failed");
                   expect_status(test, status, RONDEL_PEER_LOST, "status");
                   test.expect_equal(last_error(comm).peer, 0,
                                     std::string("names rank 0: ") + last_error(comm).text);
                   rondel_destroy(comm);
                 });
  for (Rank rank = 0; rank < 3; ++rank)
    REQUIRE(job.world().heard(rank, "running", Deadline::in(seconds(20))));
  job.world().signal(0, SIGKILL);
  const Deadline deadline = Deadline::in(seconds(2));
  for (Rank rank = 1; rank < 3; ++rank) CHECK(job.world().heard(rank, "failed", deadline));
  CHECK(job.end(seconds(10), 0) == "");
}

TEST_CASE("a rank that is stopped is named at the operation timeout") {
  const Rank stopped = GENERATE(1, 2);
  const bool reachable = GENERATE(false, true);
  ProcessJob job(3, {.timeout_seconds = "1", .environment = {}},
                 [reachable, stopped](RankTest& test, const Voice& voice, rondel_comm_t comm) {
                   require_ok(test, rondel_barrier(comm), comm, "barrier");
                   voice.say("running");
                   const rondel_status_t status = sum_until_failure(comm, reachable);
                   voice.say("failed");
                   expect_status(test, status, RONDEL_TIMED_OUT, "status");
                   expect_failure(test, comm, RONDEL_TIMED_OUT, stopped);
                   rondel_destroy(comm);
                 });
  for (Rank rank = 0; rank < 3; ++rank)
    REQUIRE(job.world().heard(rank, "running", Deadline::in(seconds(20))));
  job.world().signal(stopped, SIGSTOP);
  const Deadline deadline = Deadline::in(seconds(4));
  for (const Rank rank : {0, 3 - stopped}) CHECK(job.world().heard(rank, "failed", deadline));
  job.world().signal(stopped, SIGKILL);
  CHECK(job.end(seconds(10), stopped) == "");
}

TEST_CASE("a rank that may have no more shared memory makes sums slower, not wrong") {
  ProcessJob job(3, {.environment = {}}, [](RankTest& test, const Voice&, rondel_comm_t comm) {
    std::vector<float> data(300'000, 1.0F);
    require_ok(test, rondel_allreduce(comm, data.data(), data.data(), 1, RONDEL_FLOAT32, RONDEL_SUM), comm,
               "ranks reach one another");
    const rlimit small{64 * 1024, RLIM_INFINITY};
    if (test.rank() == 1) test.require(::setrlimit(RLIMIT_FSIZE, &small) == 0, "a limit on file sizes");
    for (int i = 0; i < 2; ++i) {
      std::fill(data.begin(), data.end(), 1.0F);
      require_ok(test,
                 rondel_allreduce(comm, data.data(), data.data(), data.size(), RONDEL_FLOAT32, RONDEL_SUM),
                 comm, "allreduce");
      test.expect(std::count(data.begin(), data.end(), 3.0F) == 300'000, "sum");
    }
    require_ok(test, rondel_finalize(comm), nullptr, "end");
  });
  CHECK(job.end(seconds(30)) == "");
}

TEST_CASE("a rank that leaves early is named, whether it says goodbye or just exits") {
  const bool polite = GENERATE(true, false);
  ProcessJob job(3, {.environment = {}}, [polite](RankTest& test, const Voice& voice, rondel_comm_t comm) {
    float value = 1;
    require_ok(test, rondel_allreduce(comm, &value, &value, 1, RONDEL_FLOAT32, RONDEL_SUM), comm, "first");
    if (test.rank() == 1) {
      if (polite) rondel_destroy(comm);
      ::_exit(0);
    }
    test.expect(value == 3.0F, "what ended before it left is right");
    const auto begin = Deadline::Clock::now();
    const rondel_status_t status = sum_until_failure(comm);
    test.expect(seconds_since(begin) < 2, "within 2 s");
    voice.say("failed");
    test.expect(status == RONDEL_PEER_LEFT || (!polite && status == RONDEL_PEER_LOST),
                std::string("left, not broken: ") + last_error(comm).text);
    test.expect_equal(last_error(comm).peer, 1, std::string("names rank 1: ") + last_error(comm).text);
    rondel_destroy(comm);
  });
  CHECK(job.end(seconds(30)) == "");
}

TEST_CASE("a program that exits in the middle of its job waits for nobody") {
  const Server server =
      GENERATE(Server::launcher, Server::rank_0);  // whom its exit takes the meeting point from
  ProcessJob job(2, {.server = server, .environment = {}},
                 [](RankTest& test, const Voice& voice, rondel_comm_t comm) {
                   float value = 1;
                   require_ok(test, rondel_allreduce(comm, &value, &value, 1, RONDEL_FLOAT32, RONDEL_SUM),
                              comm, "first");
                   voice.say("running");
                   if (test.rank() == 0)
                     std::exit(7);      // NOLINT(concurrency-mt-unsafe): as a program's uncaught error does
                   for (;;) ::pause();  // computes, and calls nothing of Rondel's
                 });
  for (Rank rank = 0; rank < 2; ++rank)
    REQUIRE(job.world().heard(rank, "running", Deadline::in(seconds(20))));
  const Ending ending = job.world().wait(0, Deadline::in(seconds(2)));
  CHECK(ending.ended);
  CHECK(ending.exit_code == 7);
  job.world().signal(1, SIGKILL);
  job.end(seconds(10), 1);
}

TEST_CASE("a communicator that was never used fails in time when its peer has gone") {
  ProcessJob job(
      2, {.timeout_seconds = "2", .environment = {}}, [](RankTest& test, const Voice&, rondel_comm_t comm) {
        rondel_comm_t second = nullptr;
        require_ok(test, rondel_duplicate(comm, &second), comm, "duplicate");
        std::int32_t word = 1;
        if (test.rank() == 0) {
          require_ok(test, rondel_recv(comm, &word, 1, RONDEL_INT32, 1), comm, "word");
          ::_exit(0);
        }
        require_ok(test, rondel_send(comm, &word, 1, RONDEL_INT32, 0), comm, "word");
        const auto begin = Deadline::Clock::now();
        const rondel_status_t status = rondel_barrier(second);
        test.expect(status == RONDEL_PEER_LOST || status == RONDEL_PEER_LEFT, last_error(second).text);
        test.expect_equal(last_error(second).peer, 0, "names rank 0");
        test.expect(seconds_since(begin) < 2, "within 2 s");
        rondel_destroy(second);
        rondel_destroy(comm);
      });
  CHECK(job.end(seconds(20)) == "");
}

TEST_CASE("abort from another thread ends the operation on every rank") {
  ProcessJob job(3, {.environment = {}}, [](RankTest& test, const Voice&, rondel_comm_t comm) {
    if (test.rank() != 0) {
      expect_status(test, sum_until_failure(comm), RONDEL_ABORTED, "status");
      test.expect(std::string(last_error(comm).text).find("changed my mind") != std::string::npos,
                  std::string("quotes the reason: ") + last_error(comm).text);
      rondel_destroy(comm);
      return;
    }
    double took = 0;
    std::atomic<bool> inside{false};
    std::thread other([comm, &inside, &took] {
      while (!inside.load(std::memory_order_acquire))
        std::this_thread::yield();  // pairs with the store below
      const auto begin = Deadline::Clock::now();
      rondel_abort(comm, "changed my mind");
      took = seconds_since(begin);
    });
    inside.store(true, std::memory_order_release);
    expect_status(test, sum_until_failure(comm), RONDEL_ABORTED, "status");
    other.join();
    test.expect(took < 1, "abort returns within a second");
    rondel_destroy(comm);
  });
  CHECK(job.end(seconds(30)) == "");
}

TEST_CASE("abort returns although a peer does nothing, and ends the operation here") {
  ProcessJob job(2, {.timeout_seconds = "60", .environment = {}},
                 [](RankTest& test, const Voice& voice, rondel_comm_t comm) {
                   if (test.rank() == 1)
                     for (;;) ::pause();
                   std::thread other([comm] { rondel_abort(comm, nullptr); });
                   const auto begin = Deadline::Clock::now();
                   expect_status(test, sum_until_failure(comm), RONDEL_ABORTED, "status");
                   other.join();
                   test.expect(seconds_since(begin) < 2, "at once");
                   rondel_destroy(comm);
                   voice.say("aborted");
                 });
  CHECK(job.world().heard(0, "aborted", Deadline::in(seconds(20))));
  job.world().signal(1, SIGKILL);
  CHECK(job.end(seconds(10), 1) == "");
}

TEST_CASE("ranks that disagree all get the same mismatch, and no data is touched") {
  struct Disagreement {
    const char* what;
    std::function<rondel_status_t(Rank, rondel_comm_t, float*)> call;
    std::array<const char*, 2> words;
  };
  const std::vector<Disagreement> disagreements{
      {"count",
       [](Rank rank, rondel_comm_t comm, float* data) {
         return rondel_allreduce(comm, data, data, rank == 0 ? 100U * 2560U : 200U * 2560U, RONDEL_FLOAT32,
                                 RONDEL_SUM);
       },
       {"256000", "512000"}},
      {"a count of one or two",
       [](Rank rank, rondel_comm_t comm, float* data) {
         return rondel_allreduce(comm, data, data, rank == 0 ? 1 : 2, RONDEL_FLOAT32, RONDEL_SUM);
       },
       {"1 float32", "2 float32"}},
      {"operation",
       [](Rank rank, rondel_comm_t comm, float* data) {
         return rank == 0 ? rondel_allreduce(comm, data, data, 16, RONDEL_FLOAT32, RONDEL_SUM)
                          : rondel_broadcast(comm, data, data, 16, RONDEL_FLOAT32, 0);
       },
       {"allreduce", "broadcast"}},
      {"operator",
       [](Rank rank, rondel_comm_t comm, float* data) {
         return rondel_allreduce(comm, data, data, 16, RONDEL_FLOAT32, rank == 0 ? RONDEL_SUM : RONDEL_MAX);
       },
       {"sum", "max"}},
      {"type",
       [](Rank rank, rondel_comm_t comm, float* data) {
         return rondel_allreduce(comm, data, data, 16, rank == 0 ? RONDEL_FLOAT32 : RONDEL_INT32, RONDEL_SUM);
       },
       {"float32", "int32"}},
  };
  for (const Disagreement& disagreement : disagreements) {
    INFO(disagreement.what);
    CHECK(all_of(run_job_as_threads(
              3, "tcp",
              [&disagreement](RankTest& test, rondel_comm_t comm) {
                std::vector<float> data(200U * 2560U, 1.0F);
                rondel_barrier(comm);  // all have started; a slow rank may hear of the mismatch in here
                const rondel_status_t status = disagreement.call(test.rank(), comm, data.data());
                const std::string text = last_error(comm).text;
                expect_status(test, status, RONDEL_MISMATCH, disagreement.what);
                for (const char* word : disagreement.words)
                  test.expect(text.find(word) != std::string::npos,
                              std::string("shows ") + word + ": " + text);
                test.expect(data == std::vector<float>(data.size(), 1.0F), "data untouched");
              },
              20, End::alone)) == "");
  }
}

TEST_CASE("every operation obeys the timeout and names who was waited for") {
  constexpr std::size_t kLarge = 4U << 20U;  // 16 MiB: a send that no buffer on the way can take
  static const std::vector<float> large(kLarge);
  struct Buffers {
    std::array<float, 4> in{}, out{};
    std::array<std::uint64_t, 2> counts{1, 2};
  };
  using Call = rondel_status_t (*)(rondel_comm_t, const float*, float*, const std::uint64_t*);
  constexpr auto kType = RONDEL_FLOAT32;
  static const std::vector<std::pair<const char*, Call>> kCalls{
      {"allreduce",
       [](auto* c, auto* i, auto* o, auto*) { return rondel_allreduce(c, i, o, 2, kType, RONDEL_SUM); }},
      {"reduce_scatter",
       [](auto* c, auto* i, auto* o, auto*) { return rondel_reduce_scatter(c, i, o, 2, kType, RONDEL_SUM); }},
      {"reduce_scatterv", [](auto* c, auto* i, auto* o,
                             auto* n) { return rondel_reduce_scatterv(c, i, o, n, kType, RONDEL_SUM); }},
      {"allgather", [](auto* c, auto* i, auto* o, auto*) { return rondel_allgather(c, i, o, 2, kType); }},
      {"allgatherv", [](auto* c, auto* i, auto* o, auto* n) { return rondel_allgatherv(c, i, o, n, kType); }},
      {"broadcast", [](auto* c, auto* i, auto* o, auto*) { return rondel_broadcast(c, i, o, 2, kType, 1); }},
      {"reduce",
       [](auto* c, auto* i, auto* o, auto*) { return rondel_reduce(c, i, o, 2, kType, RONDEL_SUM, 0); }},
      {"gather", [](auto* c, auto* i, auto* o, auto*) { return rondel_gather(c, i, o, 2, kType, 0); }},
      {"gatherv", [](auto* c, auto* i, auto* o, auto* n) { return rondel_gatherv(c, i, o, n, kType, 0); }},
      {"scatter", [](auto* c, auto* i, auto* o, auto*) { return rondel_scatter(c, i, o, 2, kType, 1); }},
      {"scatterv", [](auto* c, auto* i, auto* o, auto* n) { return rondel_scatterv(c, i, o, n, kType, 1); }},
      {"alltoall", [](auto* c, auto* i, auto* o, auto*) { return rondel_alltoall(c, i, o, 2, kType); }},
      {"alltoallv",
       [](auto* c, auto* i, auto* o, auto* n) { return rondel_alltoallv(c, i, n, o, n, kType); }},
      {"barrier", [](auto* c, auto*, auto*, auto*) { return rondel_barrier(c); }},
      {"send", [](auto* c, auto*, auto*, auto*) { return rondel_send(c, large.data(), kLarge, kType, 1); }},
      {"recv", [](auto* c, auto*, auto* o, auto*) { return rondel_recv(c, o, 1, kType, 1); }},
      {"split",
       [](auto* c, auto*, auto*, auto*) {
         rondel_comm_t part = nullptr;
         return rondel_split(c, 0, 0, &part);
       }},
      {"finalize", [](auto* c, auto*, auto*, auto*) { return rondel_finalize(c); }},
  };
  Event over;
  CHECK(all_of(run_job_as_threads(
            2, "tcp",
            [&over](RankTest& test, rondel_comm_t comm) {
              std::vector<rondel_comm_t> copies(kCalls.size());
              for (auto& copy : copies) require_ok(test, rondel_duplicate(comm, &copy), comm, "duplicate");
              if (test.rank() == 1) {
                test.require(over.wait(Deadline::in(seconds(30))), "rank 0's calls end");
              } else {
                std::vector<RankTest> tests(kCalls.size(), RankTest(0, 2));
                std::vector<std::thread> threads;
                for (std::size_t k = 0; k < kCalls.size(); ++k)
                  threads.emplace_back([&copies, &tests, k] {
                    Buffers own;
                    const auto begin = Deadline::Clock::now();
                    const rondel_status_t status =
                        kCalls[k].second(copies[k], own.in.data(), own.out.data(), own.counts.data());
                    expect_status(tests[k], status, RONDEL_TIMED_OUT, kCalls[k].first);
                    tests[k].expect_equal(last_error().peer, 1,
                                          std::string(kCalls[k].first) + last_error().text);
                    tests[k].expect(seconds_since(begin) < 4, std::string(kCalls[k].first) + " ends in time");
                  });
                for (std::thread& thread : threads) thread.join();
                for (const RankTest& each : tests)
                  for (const std::string& failure : each.failures()) test.note(failure);
                copies.pop_back();  // finalize has freed it
                over.set();
              }
              for (rondel_comm_t copy : copies) rondel_destroy(copy);
            },
            1.0)) == "");
}

TEST_CASE("a rank with more steps than the others is told who has finished") {
  ProcessJob job(2, {.environment = {}}, [](RankTest& test, const Voice&, rondel_comm_t comm) {
    float value = 1;
    for (int step = 0; step < 10 + test.rank(); ++step) {
      const rondel_status_t status =
          rondel_allreduce(comm, &value, &value, 1, RONDEL_FLOAT32, RONDEL_AVERAGE);
      if (step < 10) require_ok(test, status, comm, "a common step");
      if (step < 10) continue;
      expect_status(test, status, RONDEL_PEER_LEFT, "the step too many");
      test.expect_equal(last_error(comm).peer, 0, "names the rank that has finished");
    }
    rondel_destroy(comm);
  });
  CHECK(job.end(seconds(20)) == "");
}

TEST_CASE("two threads in one communicator: the second is told so") {
  Event inside;
  CHECK(all_of(run_job_as_threads(2, "tcp", [&inside](RankTest& test, rondel_comm_t comm) {
          if (test.rank() == 1) {
            test.require(inside.wait(Deadline::in(seconds(20))), "rank 0's second thread");
            require_ok(test, rondel_barrier(comm), comm, "barrier");
            return;
          }
          std::thread first([comm] {  // in turn told so itself until it is inside
            while (rondel_barrier(comm) == RONDEL_INVALID_ARGUMENT) std::this_thread::yield();
          });
          rondel_status_t second = RONDEL_OK;
          const Deadline deadline = Deadline::in(seconds(20));
          while (second == RONDEL_OK && !deadline.passed()) second = rondel_progress(comm, 0);
          expect_status(test, second, RONDEL_INVALID_ARGUMENT, "overlap");
          inside.set();
          first.join();
        })) == "");
}

}  // namespace rondel::test
