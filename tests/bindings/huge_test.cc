// SPDX-License-Identifier: Apache-2.0
// More elements than 31 bits can count, over TCP. Not run unless asked for: it needs several GiB of memory
// and tells so, with Meson's code for a skipped test, where there are fewer.
#include <fmt/format.h>
#include <rondel.h>

#include <algorithm>
#include <catch2/catch.hpp>
#include <chrono>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <fstream>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "lib/deadline.h"
#include "tests/bindings/job_world.h"
#include "tests/support/seed.h"

namespace rondel::test {
namespace {

constexpr Rank kRanks = 2;
constexpr int kSkipped = 77;

/// The bytes that the system could give to new programs; 0 where it does not say.
std::uint64_t available_bytes() {
  std::ifstream facts("/proc/meminfo");
  std::string name;
  std::uint64_t kibibytes = 0;
  for (std::string unit; facts >> name >> kibibytes; std::getline(facts, unit))
    if (name == "MemAvailable:") return kibibytes * 1024;
  return 0;
}

void skip_without(std::uint64_t needed_bytes) {
  const std::uint64_t available = available_bytes();
  if (available >= needed_bytes) return;
  fmt::print("skipped: this needs {:.1f} GiB of memory, of which {:.1f} are available\n",
             static_cast<double>(needed_bytes) / (1U << 30), static_cast<double>(available) / (1U << 30));
  std::fflush(stdout);
  std::_Exit(kSkipped);
}

/// What a rank's data repeats. Its length is a prime, so that data at a wrong place differs.
template <class T>
std::vector<T> period_of(Rank rank) {
  Random random(static_cast<std::uint64_t>(rank) + 1);
  std::vector<T> period(65'521);
  for (T& element : period) element = static_cast<T>(random.next() >> 2);
  return period;
}

template <class T>
std::vector<T> sum_of_periods() {
  std::vector<T> sum = period_of<T>(0);
  for (Rank rank = 1; rank < kRanks; ++rank) {
    const std::vector<T> one = period_of<T>(rank);
    for (std::size_t i = 0; i < sum.size(); ++i) sum[i] = static_cast<T>(sum[i] + one[i]);
  }
  return sum;
}

template <class T>
void repeat(const std::vector<T>& period, std::span<T> data) {
  for (; !data.empty(); data = data.subspan(std::min(period.size(), data.size())))
    std::copy_n(period.begin(), std::min(period.size(), data.size()), data.begin());
}

/// The first element that is not as repeat() writes it; the number of elements when all are.
template <class T>
std::uint64_t first_difference(const std::vector<T>& period, std::span<const T> data) {
  for (std::uint64_t at = 0; at < data.size(); at += period.size()) {
    const auto piece = data.subspan(at, std::min<std::uint64_t>(period.size(), data.size() - at));
    if (std::memcmp(piece.data(), period.data(), piece.size_bytes()) == 0) continue;
    return at + static_cast<std::uint64_t>(std::mismatch(piece.begin(), piece.end(), period.begin()).first -
                                           piece.begin());
  }
  return data.size();
}

/// `call` on all ranks at once; tells rank 0's time.
template <class Call>
void timed(RankTest& test, rondel_comm_t comm, const char* what, const Call& call) {
  require_ok(test, rondel_barrier(comm), comm, "barrier");
  const auto begin = Deadline::Clock::now();
  require_ok(test, call(), comm, what);
  const std::chrono::duration<double> took = Deadline::Clock::now() - begin;
  if (test.rank() == 0) fmt::print("{}: {:.2f} s\n", what, took.count());
}

template <class T>
void sum_and_broadcast(rondel_dtype_t type, std::uint64_t count) {
  skip_without(kRanks * count * sizeof(T) + (std::uint64_t{2} << 30));
  const auto body = [type, count](RankTest& test, rondel_comm_t comm) {
    const auto memory = std::make_unique_for_overwrite<T[]>(count);
    const std::span<T> data(memory.get(), count);
    repeat(period_of<T>(test.rank()), data);
    timed(test, comm, "allreduce",
          [&] { return rondel_allreduce(comm, data.data(), data.data(), count, type, RONDEL_SUM); });
    test.expect_equal(first_difference<T>(sum_of_periods<T>(), data), count, "elements that are sums");

    const Rank root = kRanks - 1;
    repeat(period_of<T>(test.rank()), data);
    timed(test, comm, "broadcast",
          [&] { return rondel_broadcast(comm, data.data(), data.data(), count, type, root); });
    test.expect_equal(first_difference<T>(period_of<T>(root), data), count, "elements that are the root's");
  };
  for (const char* algorithm :
       {"ring", "circulant"}) {  // many short works, and a few that are as long as they get
    INFO(algorithm);
    CHECK(all_of(run_job_as_threads(kRanks, "tcp", body, 90, End::together, algorithm)) == "");
  }
}

}  // namespace

// Some segments beyond the border, so that some begin behind it, and no multiple of anything.
constexpr std::uint64_t kBeyond = (std::uint64_t{1} << 23) + 7;

TEST_CASE("more than 2^31 elements are summed and broadcast", "[.huge][count]") {
  sum_and_broadcast<std::int8_t>(RONDEL_INT8, (std::uint64_t{1} << 31) + kBeyond);
}

TEST_CASE("more than 2^32 bytes, in elements of eight, are summed and broadcast", "[.huge][bytes]") {
  sum_and_broadcast<std::int64_t>(RONDEL_INT64, (std::uint64_t{1} << 29) + kBeyond);
}

}  // namespace rondel::test
