// SPDX-License-Identifier: Apache-2.0
// Every collective through the C interface with several ranks: right values, in place and out of place,
// inputs untouched, any element type.
#include <rondel.h>

#include <array>
#include <catch2/catch.hpp>
#include <cstdint>
#include <limits>
#include <numeric>
#include <string>
#include <vector>

#include "tests/bindings/job_world.h"

namespace rondel::test {
namespace {

constexpr Rank kRanks = 3;

std::string run(const CommBody& body, Rank ranks = kRanks) {
  return all_of(run_job_as_threads(ranks, RONDEL_TEST_TRANSPORT, body));
}

std::vector<float> samples(Rank rank, std::size_t count) {
  std::vector<float> values(count);
  for (std::size_t i = 0; i < count; ++i) values[i] = sample(rank, i);
  return values;
}

float sum_of_samples(Rank ranks, std::size_t index) {
  float sum = 0;
  for (Rank rank = 0; rank < ranks; ++rank) sum += sample(rank, index);
  return sum;
}

/// What rank `to` gets from rank `from`'s vector when `counts[r]` elements go to rank r.
std::vector<float> part(Rank from, const std::vector<std::uint64_t>& counts, Rank to) {
  std::size_t begin = 0;
  for (Rank rank = 0; rank < to; ++rank) begin += counts[static_cast<std::size_t>(rank)];
  std::vector<float> values;
  for (std::size_t i = 0; i < counts[static_cast<std::size_t>(to)]; ++i)
    values.push_back(sample(from, begin + i));
  return values;
}

std::vector<float> concatenated(const std::vector<std::uint64_t>& counts) {
  std::vector<float> all;
  for (Rank rank = 0; rank < static_cast<Rank>(counts.size()); ++rank) {
    const auto values = samples(rank, counts[static_cast<std::size_t>(rank)]);
    all.insert(all.end(), values.begin(), values.end());
  }
  return all;
}

}  // namespace

TEST_CASE("allreduce sums, in place and out of place, and leaves its input alone") {
  CHECK(run([](RankTest& test, rondel_comm_t comm) {
          for (const std::size_t count : {1U, 2U, 7U, 1000U, 100'003U}) {
            const auto input = samples(test.rank(), count);
            auto sent = input;
            std::vector<float> output(count);
            require_ok(test,
                       rondel_allreduce(comm, sent.data(), output.data(), count, RONDEL_FLOAT32, RONDEL_SUM),
                       comm, "allreduce");
            test.expect(sent == input, "input unchanged");
            bool right = true;
            for (std::size_t i = 0; i < count; ++i)
              right = right && output[i] == sum_of_samples(test.size(), i);
            test.expect(right, "sum of " + std::to_string(count));
            require_ok(test,
                       rondel_allreduce(comm, sent.data(), sent.data(), count, RONDEL_FLOAT32, RONDEL_SUM),
                       comm, "in place");
            test.expect(sent == output, "in place gives the same");
          }
        }) == "");
}

TEST_CASE("no elements, with no buffers, between collectives that have some") {
  CHECK(run([](RankTest& test, rondel_comm_t comm) {
          for (int round = 0; round < 2; ++round) {
            require_ok(test, rondel_allreduce(comm, nullptr, nullptr, 0, RONDEL_FLOAT32, RONDEL_SUM), comm,
                       "allreduce");
            require_ok(test, rondel_allgather(comm, nullptr, nullptr, 0, RONDEL_INT8), comm, "allgather");
            require_ok(test, rondel_reduce_scatter(comm, nullptr, nullptr, 0, RONDEL_INT8, RONDEL_SUM), comm,
                       "rs");
            require_ok(test, rondel_broadcast(comm, nullptr, nullptr, 0, RONDEL_INT8, 1), comm, "broadcast");
            require_ok(test, rondel_alltoall(comm, nullptr, nullptr, 0, RONDEL_INT8), comm, "alltoall");
            std::int32_t one = 1;
            require_ok(test, rondel_allreduce(comm, &one, &one, 1, RONDEL_INT32, RONDEL_SUM), comm, "one");
            test.expect_equal(one, test.size(), "sum of ones");
          }
        }) == "");
}

TEST_CASE("reduce_scatter and allgather, equal and unequal parts") {
  const std::vector<std::uint64_t> counts{5, 0, 1001};
  CHECK(
      run([&counts](RankTest& test, rondel_comm_t comm) {
        const auto r = static_cast<std::size_t>(test.rank());
        const std::size_t total = std::accumulate(counts.begin(), counts.end(), std::size_t{0});
        const auto input = samples(test.rank(), total);
        std::vector<float> mine(counts[r]);
        require_ok(test,
                   rondel_reduce_scatterv(comm, input.data(), mine.data(), counts.data(), RONDEL_FLOAT32,
                                          RONDEL_SUM),
                   comm, "reduce_scatterv");
        const std::size_t begin =
            std::accumulate(counts.begin(), counts.begin() + test.rank(), std::size_t{0});
        for (std::size_t i = 0; i < mine.size(); ++i)
          test.expect(mine[i] == sum_of_samples(test.size(), begin + i), "reduce_scatterv value");

        std::vector<float> all(total);
        const auto own = samples(test.rank(), counts[r]);
        require_ok(test, rondel_allgatherv(comm, own.data(), all.data(), counts.data(), RONDEL_FLOAT32), comm,
                   "allgatherv");
        test.expect(all == concatenated(counts), "allgatherv value");

        constexpr std::size_t kEach = 33;
        std::vector<float> parts = samples(test.rank(), kEach * 3);
        float* place = parts.data() + kEach * r;
        require_ok(test, rondel_reduce_scatter(comm, parts.data(), place, kEach, RONDEL_FLOAT32, RONDEL_SUM),
                   comm, "reduce_scatter in place");
        test.expect(place[1] == sum_of_samples(test.size(), kEach * r + 1), "reduce_scatter in place value");
        require_ok(test, rondel_allgather(comm, place, parts.data(), kEach, RONDEL_FLOAT32), comm,
                   "allgather in place");
        for (std::size_t i = 0; i < parts.size(); ++i)
          test.expect(parts[i] == sum_of_samples(test.size(), i), "allgather in place value");
      }) == "");
}

TEST_CASE("rooted collectives, from every root") {
  const std::vector<std::uint64_t> counts{4, 9, 0};
  CHECK(
      run([&counts](RankTest& test, rondel_comm_t comm) {
        const auto r = static_cast<std::size_t>(test.rank());
        for (Rank root = 0; root < test.size(); ++root) {
          const bool here = root == test.rank();
          std::vector<float> data = here ? samples(root, 50) : std::vector<float>(50);
          require_ok(test, rondel_broadcast(comm, data.data(), data.data(), 50, RONDEL_FLOAT32, root), comm,
                     "bcast");
          test.expect(data == samples(root, 50), "broadcast value");

          const auto input = samples(test.rank(), 50);
          std::vector<float> sum(50);
          require_ok(test,
                     rondel_reduce(comm, input.data(), here ? sum.data() : nullptr, 50, RONDEL_FLOAT32,
                                   RONDEL_SUM, root),
                     comm, "reduce");
          test.expect(!here || sum[49] == sum_of_samples(test.size(), 49), "reduce value");

          const auto own = samples(test.rank(), counts[r]);
          std::vector<float> all(13);
          require_ok(test,
                     rondel_gatherv(comm, own.data(), here ? all.data() : nullptr, counts.data(),
                                    RONDEL_FLOAT32, root),
                     comm, "gatherv");
          test.expect(!here || all == concatenated(counts), "gatherv value");
          std::vector<float> mine(counts[r]);
          const auto source = samples(root, 13);
          require_ok(test,
                     rondel_scatterv(comm, here ? source.data() : nullptr, mine.data(), counts.data(),
                                     RONDEL_FLOAT32, root),
                     comm, "scatterv");
          test.expect(mine == part(root, counts, test.rank()), "scatterv value");

          std::vector<std::int32_t> ranks(3, -1);
          const std::int32_t me = test.rank();
          require_ok(test, rondel_gather(comm, &me, ranks.data(), 1, RONDEL_INT32, root), comm, "gather");
          test.expect(ranks == (here ? std::vector<std::int32_t>{0, 1, 2} : std::vector<std::int32_t>(3, -1)),
                      "gather value, and no other rank's output");
          std::int32_t back = -1;
          require_ok(test, rondel_scatter(comm, ranks.data(), &back, 1, RONDEL_INT32, root), comm, "scatter");
          test.expect_equal(back, me, "scatter value");
        }
      }) == "");
}

TEST_CASE("alltoall, equal and unequal parts") {
  CHECK(run([](RankTest& test, rondel_comm_t comm) {
          const auto n = static_cast<std::size_t>(test.size());
          const auto r = static_cast<std::size_t>(test.rank());
          std::vector<std::int64_t> out(n), in(n);
          for (std::size_t p = 0; p < n; ++p) out[p] = static_cast<std::int64_t>(100 * r + p);
          require_ok(test, rondel_alltoall(comm, out.data(), in.data(), 1, RONDEL_INT64), comm, "alltoall");
          for (std::size_t p = 0; p < n; ++p)
            test.expect_equal(in[p], static_cast<std::int64_t>(100 * p + r), "alltoall value");

          // rank a sends a + 2 b elements to rank b
          std::vector<std::uint64_t> sends(n), receives(n);
          for (std::size_t p = 0; p < n; ++p) {
            sends[p] = r + 2 * p;
            receives[p] = p + 2 * r;
          }
          const auto source =
              samples(test.rank(), std::accumulate(sends.begin(), sends.end(), std::size_t{0}));
          std::vector<float> found(std::accumulate(receives.begin(), receives.end(), std::size_t{0}));
          require_ok(test,
                     rondel_alltoallv(comm, source.data(), sends.data(), found.data(), receives.data(),
                                      RONDEL_FLOAT32),
                     comm, "alltoallv");
          std::vector<float> wanted;
          for (std::size_t p = 0; p < n; ++p) {
            const std::vector<std::uint64_t> theirs{p, p + 2, p + 4};
            const auto values = part(static_cast<Rank>(p), theirs, test.rank());
            wanted.insert(wanted.end(), values.begin(), values.end());
          }
          test.expect(found == wanted, "alltoallv value");
        }) == "");
}

TEST_CASE("send and receive in order, beside collectives") {
  CHECK(run([](RankTest& test, rondel_comm_t comm) {
          const Rank next = (test.rank() + 1) % test.size();
          const Rank prev = (test.rank() + test.size() - 1) % test.size();
          std::array<rondel_request_t, 2> sends{};
          const auto first = samples(test.rank(), 10'000);
          const std::int32_t second = test.rank();
          require_ok(test, rondel_isend(comm, first.data(), first.size(), RONDEL_FLOAT32, next, &sends[0]),
                     comm, "isend");
          require_ok(test, rondel_isend(comm, &second, 1, RONDEL_INT32, next, &sends[1]), comm, "isend");
          std::vector<float> got(first.size());
          require_ok(test, rondel_recv(comm, got.data(), got.size(), RONDEL_FLOAT32, prev), comm, "recv");
          test.expect(got == samples(prev, got.size()), "first message");
          require_ok(test, rondel_barrier(comm), comm, "barrier between");
          std::int32_t number = -1;
          require_ok(test, rondel_recv(comm, &number, 1, RONDEL_INT32, prev), comm, "recv");
          test.expect_equal(number, prev, "second message");
          for (rondel_request_t& request : sends) require_ok(test, rondel_wait(&request, -1), comm, "wait");
        }) == "");
}

TEST_CASE("integers are exact, booleans stay 0 or 1, NaN reaches every rank") {
  CHECK(run([](RankTest& test, rondel_comm_t comm) {
          std::int64_t big = test.rank() == 0 ? 9'007'199'254'740'993 : 0;
          require_ok(test, rondel_allreduce(comm, &big, &big, 1, RONDEL_INT64, RONDEL_SUM), comm, "int64");
          test.expect_equal(big, std::int64_t{9'007'199'254'740'993}, "int64 sum");
          std::uint8_t wraps = 200;
          require_ok(test, rondel_allreduce(comm, &wraps, &wraps, 1, RONDEL_UINT8, RONDEL_SUM), comm,
                     "uint8");
          test.expect_equal(static_cast<int>(wraps), 600 % 256, "uint8 sum wraps");

          const std::array<std::uint8_t, 3> bools{1, static_cast<std::uint8_t>(test.rank() == 1), 0};
          const auto reduced = [&test, comm, &bools](rondel_op_t op) {
            std::array<std::uint8_t, 3> out{9, 9, 9};
            require_ok(test, rondel_allreduce(comm, bools.data(), out.data(), 3, RONDEL_BOOL, op), comm,
                       "bool");
            return out;
          };
          test.expect(reduced(RONDEL_SUM) == std::array<std::uint8_t, 3>{1, 1, 0}, "sum is or");
          test.expect(reduced(RONDEL_MAX) == std::array<std::uint8_t, 3>{1, 1, 0}, "max is or");
          test.expect(reduced(RONDEL_MIN) == std::array<std::uint8_t, 3>{1, 0, 0}, "min is and");

          for (Rank holder = 0; holder < test.size(); ++holder)
            for (const rondel_op_t op : {RONDEL_MIN, RONDEL_MAX}) {
              double value = test.rank() == holder ? std::numeric_limits<double>::quiet_NaN() : test.rank();
              require_ok(test, rondel_allreduce(comm, &value, &value, 1, RONDEL_FLOAT64, op), comm, "NaN");
              test.expect(value != value, "NaN survives");
            }
        }) == "");
}

TEST_CASE("float16 average does not overflow on the way") {
  CHECK(run(
            [](RankTest& test, rondel_comm_t comm) {
              constexpr std::uint16_t kTwentyThousand = 0x74e2;
              std::uint16_t value = kTwentyThousand;
              require_ok(test, rondel_allreduce(comm, &value, &value, 1, RONDEL_FLOAT16, RONDEL_AVERAGE),
                         comm, "half");
              test.expect_equal(value, kTwentyThousand, "average of 20000.0");
            },
            4) == "");
}

TEST_CASE("the order of addition is the same on every rank and in every run") {
  CHECK(run([](RankTest& test, rondel_comm_t comm) {
          constexpr std::array<float, 3> kTerms{1e8F, 1.0F, -1e8F};
          std::array<std::uint32_t, 3> bits{};
          float first = 0;
          for (int round = 0; round < 3; ++round) {
            float value = kTerms[static_cast<std::size_t>(test.rank())];
            require_ok(test, rondel_allreduce(comm, &value, &value, 1, RONDEL_FLOAT32, RONDEL_SUM), comm,
                       "sum");
            test.expect(value == 0.0F || value == 1.0F, "a sum in some order");
            if (round == 0) first = value;
            test.expect(value == first, "the same in every run");
            require_ok(test, rondel_allgather(comm, &value, bits.data(), 1, RONDEL_FLOAT32), comm,
                       "allgather");
            test.expect(bits[0] == bits[1] && bits[1] == bits[2], "the same on every rank");
          }
        }) == "");
}

TEST_CASE("communicators can be split, duplicated and used side by side") {
  CHECK(run(
            [](RankTest& test, rondel_comm_t comm) {
              rondel_comm_t half = nullptr;
              require_ok(test, rondel_split(comm, test.rank() % 2, -test.rank(), &half), comm, "split");
              test.expect_equal(rondel_size(half), 2, "half size");
              test.expect_equal(rondel_rank(half), test.rank() < 2 ? 1 : 0, "ordered by key");
              rondel_comm_t copy = nullptr;
              require_ok(test, rondel_duplicate(comm, &copy), comm, "duplicate");
              std::int32_t in_half = test.rank();
              std::int32_t in_copy = test.rank();
              require_ok(test, rondel_allreduce(half, &in_half, &in_half, 1, RONDEL_INT32, RONDEL_SUM), half,
                         "half");
              require_ok(test, rondel_allreduce(copy, &in_copy, &in_copy, 1, RONDEL_INT32, RONDEL_SUM), copy,
                         "copy");
              test.expect_equal(in_half, test.rank() % 2 == 0 ? 2 : 4, "sum over half");
              test.expect_equal(in_copy, 6, "sum over copy");
              rondel_comm_t none = half;
              require_ok(test, rondel_split(comm, test.rank() == 3 ? -1 : 0, 0, &none), comm,
                         "split without one");
              test.expect((none == nullptr) == (test.rank() == 3), "a negative colour gets no communicator");
              require_ok(test, rondel_finalize(none), nullptr, "finalize part");
              require_ok(test, rondel_finalize(half), nullptr, "finalize half");
              require_ok(test, rondel_finalize(copy), nullptr, "finalize copy");
            },
            4) == "");
}

TEST_CASE("buffers within registered memory give the same results") {
  CHECK(run([](RankTest& test, rondel_comm_t comm) {
          constexpr std::size_t kCount = 1000;
          void* memory = nullptr;
          require_ok(test, rondel_alloc(3 * kCount * sizeof(float), &memory), nullptr, "alloc");
          auto* data = static_cast<float*>(memory);
          std::vector<float> outside(kCount);
          rondel_registration_t registration = nullptr;
          require_ok(test, rondel_register(comm, data, 2 * kCount * sizeof(float), &registration), comm,
                     "register");
          for (const std::size_t begin :
               {0U, 1U, 1000U, 1001U}) {  // inside, at the end, and reaching beyond it
            for (std::size_t i = 0; i < kCount; ++i) data[begin + i] = sample(test.rank(), i);
            require_ok(
                test,
                rondel_allreduce(comm, data + begin, outside.data(), kCount, RONDEL_FLOAT32, RONDEL_SUM),
                comm, "from registered memory");
            require_ok(test,
                       rondel_allreduce(comm, data + begin, data + begin, kCount, RONDEL_FLOAT32, RONDEL_SUM),
                       comm, "in registered memory");
            bool right = true;
            for (std::size_t i = 0; i < kCount; ++i)
              right =
                  right && data[begin + i] == sum_of_samples(test.size(), i) && outside[i] == data[begin + i];
            test.expect(right, "sums at " + std::to_string(begin));
          }
          require_ok(test, rondel_deregister(comm, registration), comm, "deregister");
          require_ok(test, rondel_allreduce(comm, data, data, kCount, RONDEL_FLOAT32, RONDEL_MAX), comm,
                     "after it");
          require_ok(test, rondel_free(memory), nullptr, "free");
        }) == "");
}

TEST_CASE("bytes are counted") {
  CHECK(run(
            [](RankTest& test, rondel_comm_t comm) {
              std::uint64_t sent = 0, received = 0, sent_then = 0, received_then = 0;
              require_ok(test, rondel_byte_counts(comm, &sent_then, &received_then), comm, "counts");
              std::vector<float> data(1'000'000, 1.0F);
              require_ok(
                  test,
                  rondel_allreduce(comm, data.data(), data.data(), data.size(), RONDEL_FLOAT32, RONDEL_SUM),
                  comm, "allreduce");
              require_ok(test, rondel_byte_counts(comm, &sent, &received), comm, "counts");
              // 2 (n - 1) / n of the vector each way, and a few bytes of agreement
              test.expect(sent - sent_then >= 4'000'000 && sent - sent_then < 4'001'000, "bytes sent");
              test.expect(received - received_then >= 4'000'000 && received - received_then < 4'001'000,
                          "received");
            },
            2) == "");
}

}  // namespace rondel::test
