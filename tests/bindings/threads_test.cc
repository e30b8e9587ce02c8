// SPDX-License-Identifier: Apache-2.0
// Two communicators of the same ranks used at once, each by a thread of its own: whatever order the ranks'
// threads come in, all operations end with right results.
#include <fmt/format.h>
#include <rondel.h>

#include <array>
#include <catch2/catch.hpp>
#include <chrono>
#include <cstdint>
#include <string>
#include <string_view>
#include <thread>
#include <vector>

#include "tests/bindings/job_world.h"
#include "tests/support/seed.h"

namespace rondel::test {
namespace {

constexpr Rank kRanks = 4;
constexpr int kRounds = 100;
constexpr double kTimeoutSeconds = 10;  // of one operation; a dead lock ends here

using Numbers = std::vector<std::int64_t>;

/// One thread's operations on one communicator, in an order that all ranks of it share.
class Stream {
 public:
  Stream(RankTest& test, rondel_comm_t comm, std::uint64_t number, std::uint64_t seed)
      : test_(test),
        comm_(comm),
        number_(number),
        order_(seed * 10 + number),
        pace_(seed * 1000 + number * 100 + static_cast<std::uint64_t>(test.rank())) {}

  void run() {
    for (round_ = 0; round_ < kRounds; ++round_) {
      const std::uint64_t kind = order_.below(6);
      count_ = std::array<std::size_t, 3>{1, 333, 20'000}[order_.below(3)];
      if (pace_.happens(0.2)) std::this_thread::yield();
      if (kind == 0) all_reduce(RONDEL_SUM);
      if (kind == 1) all_reduce(RONDEL_MAX);
      if (kind == 2) broadcast();
      if (kind == 3) all_gather();
      if (kind == 4) reduce_scatter();
      if (kind == 5) ended(rondel_barrier(comm_), "barrier");
    }
  }

 private:
  int ranks() const { return rondel_size(comm_); }
  int rank() const { return rondel_rank(comm_); }
  /// Different for each stream, round, rank and place.
  std::int64_t sample_of(int rank, std::size_t i) const {
    return static_cast<std::int64_t>(number_ * 1'000'000'000 + i) + round_ * 1'000'000 + rank * 100'000;
  }
  std::int64_t sum_at(std::size_t i) const {
    std::int64_t sum = 0;
    for (int rank = 0; rank < ranks(); ++rank) sum += sample_of(rank, i);
    return sum;
  }
  Numbers samples(int rank, std::size_t count) const {
    Numbers numbers(count);
    for (std::size_t i = 0; i < count; ++i) numbers[i] = sample_of(rank, i);
    return numbers;
  }
  void ended(rondel_status_t status, std::string_view what) {
    require_ok(test_, status, comm_, fmt::format("stream {}, round {}: {}", number_, round_, what));
  }
  void expect(bool right, std::string_view what) {
    test_.require(right, fmt::format("stream {}, round {}: value of {} {}", number_, round_, count_, what));
  }

  void all_reduce(rondel_op_t op) {
    Numbers data = samples(rank(), count_);
    ended(rondel_allreduce(comm_, data.data(), data.data(), count_, RONDEL_INT64, op), "allreduce");
    bool right = true;
    for (std::size_t i = 0; i < count_; ++i)
      right = right && data[i] == (op == RONDEL_SUM ? sum_at(i) : sample_of(ranks() - 1, i));
    expect(right, op == RONDEL_SUM ? "sums" : "maxima");
  }
  void broadcast() {
    const int root = round_ % ranks();
    Numbers data = samples(rank(), count_);
    ended(rondel_broadcast(comm_, data.data(), data.data(), count_, RONDEL_INT64, root), "broadcast");
    expect(data == samples(root, count_), "copies");
  }
  void all_gather() {
    const Numbers mine = samples(rank(), count_);
    Numbers all(count_ * static_cast<std::size_t>(ranks())), wanted;
    ended(rondel_allgather(comm_, mine.data(), all.data(), count_, RONDEL_INT64), "allgather");
    for (int from = 0; from < ranks(); ++from) {
      const Numbers theirs = samples(from, count_);
      wanted.insert(wanted.end(), theirs.begin(), theirs.end());
    }
    expect(all == wanted, "gathered");
  }
  void reduce_scatter() {
    const Numbers all = samples(rank(), count_ * static_cast<std::size_t>(ranks()));
    Numbers mine(count_);
    ended(rondel_reduce_scatter(comm_, all.data(), mine.data(), count_, RONDEL_INT64, RONDEL_SUM),
          "reduce_scatter");
    bool right = true;
    for (std::size_t i = 0; i < count_; ++i)
      right = right && mine[i] == sum_at(i + count_ * static_cast<std::size_t>(rank()));
    expect(right, "scattered sums");
  }

  RankTest& test_;
  const rondel_comm_t comm_;
  const std::uint64_t number_;
  Random order_, pace_;
  int round_ = 0;
  std::size_t count_ = 0;
};

/// Drives both communicators at once, then frees them.
void drive(RankTest& test, rondel_comm_t first, rondel_comm_t second, std::uint64_t seed) {
  RankTest other(test.rank(), test.size());
  std::thread thread([&other, second, seed] {
    other.run([second, seed](RankTest& self) { Stream(self, second, 2, seed).run(); });
  });
  test.run([first, seed](RankTest& self) { Stream(self, first, 1, seed).run(); });
  thread.join();
  for (const std::string& failure : other.failures()) test.note(failure);
  const bool together = test.failures().empty();
  for (const rondel_comm_t comm : {first, second})
    require_ok(test, together ? rondel_finalize(comm) : rondel_destroy(comm), nullptr, "end");
}

/// Half of the ranks beside all of them.
void drive_half_and_whole(RankTest& test, rondel_comm_t comm, std::uint64_t seed) {
  rondel_comm_t half = nullptr, whole = nullptr;
  require_ok(test, rondel_split(comm, test.rank() % 2, -test.rank(), &half), comm, "split");
  require_ok(test, rondel_duplicate(comm, &whole), comm, "duplicate");
  drive(test, half, whole, seed);
}

}  // namespace

TEST_CASE("two communicators at once, each on a thread of its own") {
  const std::uint64_t seed = test_seed();
  CHECK(all_of(run_job_as_threads(
            kRanks, RONDEL_TEST_TRANSPORT,
            [seed](RankTest& test, rondel_comm_t comm) { drive_half_and_whole(test, comm, seed); },
            kTimeoutSeconds)) == "");
}

TEST_CASE("two communicators at once in each of four processes") {
  if (std::string_view(RONDEL_TEST_TRANSPORT) == "loopback") return;  // which connects threads only
  const std::uint64_t seed = test_seed();
  ProcessJob job(kRanks, {.timeout_seconds = fmt::format("{}", kTimeoutSeconds), .environment = {}},
                 [seed](RankTest& test, const Voice&, rondel_comm_t comm) {
                   drive_half_and_whole(test, comm, seed);
                   require_ok(test, rondel_finalize(comm), nullptr, "end");
                 });
  CHECK(job.end(std::chrono::seconds(40)) == "");
}

}  // namespace rondel::test
