// SPDX-License-Identifier: Apache-2.0
// Non-blocking operations: every kind, finished by test, wait, wait_any, an event loop.
#include <poll.h>
#include <rondel.h>

#include <array>
#include <catch2/catch.hpp>
#include <string>
#include <vector>

#include "lib/deadline.h"
#include "tests/bindings/job_world.h"

namespace rondel::test {
namespace {

std::string run(Rank ranks, const CommBody& body, const std::string& transport = RONDEL_TEST_TRANSPORT) {
  return all_of(run_job_as_threads(ranks, transport, body));
}

const auto kPatience = std::chrono::seconds(20);

/// Finishes `request` as an event loop would: sleeps in poll(), and calls Rondel only when the descriptor
/// says so.
void finish_in_poll_loop(RankTest& test, rondel_comm_t comm, rondel_request_t* request) {
  const Deadline deadline = Deadline::in(kPatience);
  while (*request != nullptr) {
    test.require(!deadline.passed(), "the operation ends in time");
    int descriptor = -1;
    require_ok(test, rondel_event_descriptor(comm, &descriptor), comm, "descriptor");
    pollfd item{.fd = descriptor, .events = POLLIN, .revents = 0};
    test.require(::poll(&item, 1, deadline.left_ms()) == 1, "the descriptor turns readable");
    int done = 0;
    require_ok(test, rondel_test(request, &done), comm, "test");
    test.require((done == 1) == (*request == nullptr), "done says whether the request is gone");
  }
}

}  // namespace

TEST_CASE("every operation can be started and waited for") {
  CHECK(run(2, [](RankTest& test, rondel_comm_t comm) {
          const std::array<std::uint64_t, 2> ones{1, 1};
          const std::uint64_t* counts = ones.data();
          const std::array<std::int32_t, 2> in{test.rank() + 1, test.rank() + 10};
          std::array<std::array<std::int32_t, 2>, 15> out{};
          std::vector<rondel_request_t> requests(16);
          const auto* i = in.data();
          std::size_t n = 0;
          const auto go = [&test, comm, &n](rondel_status_t status) {
            require_ok(test, status, comm, "start");
            ++n;
          };
          const auto type = RONDEL_INT32;
          const auto op = RONDEL_SUM;
          go(rondel_iallreduce(comm, i, out[0].data(), 2, type, op, &requests[0]));
          go(rondel_ireduce_scatter(comm, i, out[1].data(), 1, type, op, &requests[1]));
          go(rondel_ireduce_scatterv(comm, i, out[2].data(), counts, type, op, &requests[2]));
          go(rondel_iallgather(comm, i, out[3].data(), 1, type, &requests[3]));
          go(rondel_iallgatherv(comm, i, out[4].data(), counts, type, &requests[4]));
          go(rondel_ibroadcast(comm, i, out[5].data(), 2, type, 1, &requests[5]));
          go(rondel_ireduce(comm, i, out[6].data(), 2, type, op, 0, &requests[6]));
          go(rondel_igather(comm, i, out[7].data(), 1, type, 0, &requests[7]));
          go(rondel_igatherv(comm, i, out[8].data(), counts, type, 0, &requests[8]));
          go(rondel_iscatter(comm, i, out[9].data(), 1, type, 0, &requests[9]));
          go(rondel_iscatterv(comm, i, out[10].data(), counts, type, 0, &requests[10]));
          go(rondel_ialltoall(comm, i, out[11].data(), 1, type, &requests[11]));
          go(rondel_ialltoallv(comm, i, counts, out[12].data(), counts, type, &requests[12]));
          go(rondel_ibarrier(comm, &requests[13]));
          const Rank peer = 1 - test.rank();
          go(rondel_isend(comm, i, 2, type, peer, &requests[14]));
          go(rondel_irecv(comm, out[13].data(), 2, type, peer, &requests[15]));
          for (auto& request : requests) require_ok(test, rondel_wait(&request, -1), comm, "wait");
          using Pair = std::array<std::int32_t, 2>;
          const bool root = test.rank() == 0;
          const std::int32_t mine = root ? 3 : 21;
          const std::array<Pair, 14> wanted{Pair{3, 21},
                                            Pair{mine, 0},
                                            Pair{mine, 0},
                                            Pair{1, 2},
                                            Pair{1, 2},
                                            Pair{2, 11},
                                            root ? Pair{3, 21} : Pair{},
                                            root ? Pair{1, 2} : Pair{},
                                            root ? Pair{1, 2} : Pair{},
                                            Pair{root ? 1 : 10, 0},
                                            Pair{root ? 1 : 10, 0},
                                            root ? Pair{1, 2} : Pair{10, 11},
                                            root ? Pair{1, 2} : Pair{10, 11},
                                            root ? Pair{2, 11} : Pair{1, 10}};
          for (std::size_t k = 0; k < wanted.size(); ++k)
            test.expect(out[k] == wanted[k], "value of operation " + std::to_string(k));
          test.expect_equal(n, std::size_t{16}, "operations started");
        }) == "");
}

TEST_CASE("counts arrays are the caller's again when the start returns") {
  CHECK(run(2, [](RankTest& test, rondel_comm_t comm) {
          std::array<std::uint64_t, 2> counts{2, 1};
          const std::array<std::int32_t, 2> in{test.rank() + 1, test.rank() + 10};
          std::array<std::int32_t, 3> out{};
          rondel_request_t request = nullptr;
          require_ok(test,
                     rondel_iallgatherv(comm, in.data(), out.data(), counts.data(), RONDEL_INT32, &request),
                     comm, "start");
          counts = {1'000'000, 1'000'000};
          require_ok(test, rondel_wait(&request, -1), comm, "wait");
          test.expect(out == std::array<std::int32_t, 3>{1, 10, 2}, "value");
        }) == "");
}

TEST_CASE("an event loop finishes operations, large and small") {
  const std::string transport = GENERATE(RONDEL_TEST_TRANSPORT, "loopback");
  CHECK(run(
            2,
            [](RankTest& test, rondel_comm_t comm) {
              int descriptor = -1;
              require_ok(test, rondel_event_descriptor(comm, &descriptor), comm, "descriptor");
              for (const std::size_t count : {1U, 1'000U, 3'000'000U}) {
                std::vector<float> data(count, static_cast<float>(test.rank() + 1));
                rondel_request_t request = nullptr;
                require_ok(test,
                           rondel_iallreduce(comm, data.data(), data.data(), count, RONDEL_FLOAT32,
                                             RONDEL_SUM, &request),
                           comm, "start");
                finish_in_poll_loop(test, comm, &request);
                test.expect(data.front() == 3.0F && data.back() == 3.0F, "sum");
              }
            },
            transport) == "");
}

TEST_CASE("a descriptor turns readable when a peer comes later") {
  Event started;
  CHECK(run(2, [&started](RankTest& test, rondel_comm_t comm) {
          float value = 1;
          rondel_request_t request = nullptr;
          if (test.rank() == 1) test.require(started.wait(Deadline::in(kPatience)), "rank 0 starts");
          require_ok(test, rondel_iallreduce(comm, &value, &value, 1, RONDEL_FLOAT32, RONDEL_SUM, &request),
                     comm, "start");
          int done = 1;
          if (test.rank() == 0) {
            require_ok(test, rondel_test(&request, &done), comm, "test");
            test.expect_equal(done, 0, "nothing is done before the peer comes");
            started.set();
          }
          finish_in_poll_loop(test, comm, &request);
          test.expect(value == 2.0F, "sum");
        }) == "");
}

TEST_CASE("waiting may be given up and taken up again") {
  Event given_up;
  CHECK(run(2, [&given_up](RankTest& test, rondel_comm_t comm) {
          float value = 1;
          rondel_request_t request = nullptr;
          if (test.rank() == 1) test.require(given_up.wait(Deadline::in(kPatience)), "rank 0 gives up");
          require_ok(test, rondel_iallreduce(comm, &value, &value, 1, RONDEL_FLOAT32, RONDEL_SUM, &request),
                     comm, "start");
          if (test.rank() == 0) {
            test.expect_equal(static_cast<int>(rondel_wait(&request, 0.02)),
                              static_cast<int>(RONDEL_TIMED_OUT), "too early");
            std::size_t index = 0;
            test.expect_equal(static_cast<int>(rondel_wait_any(&request, 1, 0.02, &index)),
                              static_cast<int>(RONDEL_TIMED_OUT), "too early for any");
            test.require(request != nullptr, "the request is still there");
            given_up.set();
          }
          require_ok(test, rondel_wait(&request, 20), comm, "wait again");
          test.expect(value == 2.0F, "sum");
        }) == "");
}

TEST_CASE("wait_any takes what ends first, on several communicators") {
  CHECK(run(2, [](RankTest& test, rondel_comm_t comm) {
          rondel_comm_t other = nullptr;
          require_ok(test, rondel_duplicate(comm, &other), comm, "duplicate");
          if (test.rank() == 1) {
            float value = 5;
            float ready = 0;
            require_ok(test, rondel_send(other, &value, 1, RONDEL_FLOAT32, 0), other, "send on the copy");
            require_ok(test, rondel_recv(comm, &ready, 1, RONDEL_FLOAT32, 0), comm, "word that it came");
            require_ok(test, rondel_send(comm, &value, 1, RONDEL_FLOAT32, 0), comm, "send");
          } else {
            std::array<float, 2> got{};
            std::array<rondel_request_t, 3> requests{};
            require_ok(test, rondel_irecv(comm, &got[0], 1, RONDEL_FLOAT32, 1, &requests[0]), comm, "irecv");
            require_ok(test, rondel_irecv(other, &got[1], 1, RONDEL_FLOAT32, 1, &requests[2]), other,
                       "irecv");
            std::size_t index = 9;
            require_ok(test, rondel_wait_any(requests.data(), 3, 20, &index), nullptr, "any");
            test.expect_equal(index, std::size_t{2}, "the copy's came first");
            test.expect(requests[2] == nullptr && requests[0] != nullptr, "only that one ended");
            const float word = 1;
            require_ok(test, rondel_send(comm, &word, 1, RONDEL_FLOAT32, 1), comm, "word");
            require_ok(test, rondel_wait_any(requests.data(), 3, 20, &index), nullptr, "any");
            test.expect_equal(index, std::size_t{0}, "then the other");
            test.expect(got == std::array<float, 2>{5, 5}, "values");
          }
          require_ok(test, rondel_finalize(other), nullptr, "finalize the copy");
        }) == "");
}

TEST_CASE("progress alone moves what was started") {
  CHECK(run(3, [](RankTest& test, rondel_comm_t comm) {
          std::vector<float> data(200'000, 1.0F);
          rondel_request_t request = nullptr;
          require_ok(test,
                     rondel_iallreduce(comm, data.data(), data.data(), data.size(), RONDEL_FLOAT32,
                                       RONDEL_SUM, &request),
                     comm, "start");
          const Deadline deadline = Deadline::in(kPatience);
          int done = 0;
          while (done == 0 && !deadline.passed()) {
            require_ok(test, rondel_progress(comm, 0.05), comm, "progress");
            require_ok(test, rondel_test(&request, &done), comm, "test");
          }
          test.expect(done == 1 && data[100'000] == 3.0F, "sum");
        }) == "");
}

}  // namespace rondel::test
