// SPDX-License-Identifier: Apache-2.0
// What a rank costs beside the caller's buffers: memory for large messages, and a core's time while it waits.
#include <rondel.h>

#include <catch2/catch.hpp>
#include <chrono>
#include <fstream>
#include <numeric>
#include <string>
#include <thread>
#include <vector>

#include "tests/bindings/job_world.h"
#include "tests/support/clocks.h"
#include "tests/support/sanitizers.h"

#if !UNDER_ADDRESS_SANITIZER && !UNDER_THREAD_SANITIZER  // whose own memory and time are counted in

namespace rondel::test {
namespace {

/// Kilobytes from /proc/self/status: VmRSS is what this process occupies, VmHWM the most that it ever did.
long status_kilobytes(const std::string& field) {
  std::ifstream status("/proc/self/status");
  for (std::string line; std::getline(status, line);)
    if (line.compare(0, field.size(), field) == 0) return std::stol(line.substr(field.size() + 1));
  return -1;
}

double process_cpu_seconds() {
  return std::chrono::duration<double>(cpu_time(CLOCK_PROCESS_CPUTIME_ID)).count();
}

}  // namespace

TEST_CASE("messages of 64 MiB take less than 16 MiB of a rank beside its buffers") {
  ProcessJob job(2, {.environment = {}}, [](RankTest& test, const Voice&, rondel_comm_t comm) {
    std::vector<float> in(16 << 20, 1.0F);
    std::vector<float> out(in.size(), 2.0F);
    const long before = status_kilobytes("VmRSS:");
    for (int i = 0; i < 3; ++i) {
      require_ok(test, rondel_allreduce(comm, in.data(), out.data(), in.size(), RONDEL_FLOAT32, RONDEL_SUM),
                 comm, "out of place");
      require_ok(test, rondel_allreduce(comm, out.data(), out.data(), in.size(), RONDEL_FLOAT32, RONDEL_SUM),
                 comm, "in place");
    }
    const long more = status_kilobytes("VmHWM:") - before;
    test.expect(before >= 128 * 1024, "the buffers are counted: " + std::to_string(before));
    test.expect(more < 16 * 1024, "more kilobytes: " + std::to_string(more));
    require_ok(test, rondel_finalize(comm), nullptr, "end");
  });
  CHECK(job.end(std::chrono::seconds(30)) == "");
}

TEST_CASE("a rank that waits for another, or has nothing to do, uses less than 1 % of a core") {
  static constexpr double kSeconds = 2;
  ProcessJob job(2, {.environment = {}}, [](RankTest& test, const Voice&, rondel_comm_t comm) {
    const auto pause = std::chrono::duration<double>(kSeconds);
    require_ok(test, rondel_barrier(comm), comm, "barrier");
    double before = process_cpu_seconds();
    if (test.rank() == 1) std::this_thread::sleep_for(pause);
    require_ok(test, rondel_barrier(comm), comm, "barrier that rank 0 waits in");
    const double waiting = process_cpu_seconds() - before;
    test.expect(waiting < kSeconds / 100, "seconds used while one waits: " + std::to_string(waiting));
    before = process_cpu_seconds();
    std::this_thread::sleep_for(pause);
    const double resting = process_cpu_seconds() - before;
    test.expect(resting < kSeconds / 100, "seconds used while nothing is to do: " + std::to_string(resting));
    require_ok(test, rondel_finalize(comm), nullptr, "end");
  });
  CHECK(job.end(std::chrono::seconds(30)) == "");
}

TEST_CASE(
    "a rank with nothing to do takes nothing from threads that compute, and is there when it is called") {
  static constexpr double kSeconds = 2;
  ProcessJob job(2, {.environment = {}}, [](RankTest& test, const Voice&, rondel_comm_t comm) {
    require_ok(test, rondel_barrier(comm), comm, "barrier");
    const double before = process_cpu_seconds();
    std::vector<std::chrono::nanoseconds> computed(2 * std::thread::hardware_concurrency());
    std::vector<std::thread> threads;
    const auto until = std::chrono::steady_clock::now() + std::chrono::duration<double>(kSeconds);
    for (auto& mine : computed)
      threads.emplace_back([&mine, until] {
        while (std::chrono::steady_clock::now() < until) {
        }
        mine = cpu_time(CLOCK_THREAD_CPUTIME_ID);
      });
    for (std::thread& thread : threads) thread.join();
    const std::chrono::duration<double> by_threads =
        std::accumulate(computed.begin(), computed.end(), std::chrono::nanoseconds(0));
    const double others = process_cpu_seconds() - before - by_threads.count();
    test.expect(by_threads.count() > kSeconds / 1000, "they computed");
    test.expect(others < kSeconds / 100, "seconds of all other threads: " + std::to_string(others));
    require_ok(test, rondel_barrier(comm), comm, "barrier");
    require_ok(test, rondel_finalize(comm), nullptr, "end");
  });
  CHECK(job.end(std::chrono::seconds(30)) == "");
}

}  // namespace rondel::test

#endif
