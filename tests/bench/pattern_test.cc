// SPDX-License-Identifier: Apache-2.0
#include "bench/pattern.h"

#include <catch2/catch.hpp>
#include <cstring>
#include <vector>

#include "lib/reduce.h"

namespace rondel::bench {
namespace {

constexpr std::size_t kElements = 1031;
using Bytes = std::vector<std::byte>;

struct Case {
  DataType type;
  ReduceOp op;
  Rank ranks;
};

std::vector<Case> all_cases() {
  std::vector<Case> cases;
  for (std::size_t t = 0; t < kDataTypeCount; ++t)
    for (std::size_t o = 0; o < kReduceOpCount; ++o)
      for (const Rank ranks : {1, 2, 3, 8, 300})
        if (supports(static_cast<DataType>(t), static_cast<ReduceOp>(o)))
          cases.push_back({static_cast<DataType>(t), static_cast<ReduceOp>(o), ranks});
  return cases;
}

Bytes input_of(const Pattern& pattern, DataType type, Rank rank, std::size_t first = 0) {
  Bytes data(kElements * size_of(type));
  pattern.fill(data.data(), rank, first, kElements);
  return data;
}

/// The reduction by lib's kernels, leaving out rank `without`.
Bytes reduced(const Case& c, const Pattern& pattern, Rank without = kNoRank) {
  std::vector<Bytes> inputs;
  for (Rank rank = 0; rank < c.ranks; ++rank)
    if (rank != without) inputs.push_back(input_of(pattern, c.type, rank));
  std::vector<const void*> sources;
  for (const Bytes& input : inputs) sources.push_back(input.data());
  Bytes result(kElements * size_of(c.type));
  fold_many(c.type, c.op, result.data(), sources, kElements);
  return result;
}

std::string name_of_case(const Case& c) {
  return std::string(name_of(c.type)) + " " + std::string(name_of(c.op)) + " " + std::to_string(c.ranks);
}

TEST_CASE("a right reduction has no wrong element") {
  for (const Case& c : all_cases()) {
    INFO(name_of_case(c));
    const Pattern pattern(c.type, c.op, c.ranks, 5);
    CHECK(pattern.count_wrong_results(reduced(c, pattern).data(), 0, kElements) == 0);
  }
}

TEST_CASE("one spoiled element is one wrong element") {
  for (const Case& c : all_cases()) {
    INFO(name_of_case(c));
    const Pattern pattern(c.type, c.op, c.ranks, 5);
    Bytes result = reduced(c, pattern);
    for (std::size_t i = 0; i < size_of(c.type); ++i) result[7 * size_of(c.type) + i] ^= std::byte{0xff};
    CHECK(pattern.count_wrong_results(result.data(), 0, kElements) == 1);
  }
}

TEST_CASE("a missing rank, another place and another seed show") {
  for (const Case& c : all_cases()) {
    if (c.ranks < 2 || c.ranks > 8) continue;
    INFO(name_of_case(c));
    const Pattern pattern(c.type, c.op, c.ranks, 5);
    const Bytes result = reduced(c, pattern);
    CHECK(pattern.count_wrong_results(reduced(c, pattern, c.ranks - 1).data(), 0, kElements) > 0);
    CHECK(pattern.count_wrong_results(result.data(), 1, kElements) > 0);
    CHECK(Pattern(c.type, c.op, c.ranks, 6).count_wrong_results(result.data(), 0, kElements) > 0);
  }
}

TEST_CASE("copies are told apart by rank and place") {
  for (std::size_t t = 0; t < kDataTypeCount; ++t) {
    const auto type = static_cast<DataType>(t);
    INFO(name_of(type));
    const Pattern pattern(type, std::nullopt, 4, 1);
    const Bytes data = input_of(pattern, type, 2, 100);
    CHECK(pattern.count_wrong_copies(data.data(), 2, 100, kElements) == 0);
    CHECK(pattern.count_wrong_copies(data.data(), 1, 100, kElements) > kElements / 4);
    CHECK(pattern.count_wrong_copies(data.data(), 2, 101, kElements) > kElements / 4);
  }
}

TEST_CASE("places beyond 32 bits differ from those below") {
  const Pattern pattern(DataType::int32, std::nullopt, 2, 1);
  const Bytes data = input_of(pattern, DataType::int32, 0, 0);
  CHECK(pattern.count_wrong_copies(data.data(), 0, std::size_t{1} << 32, kElements) > kElements / 2);
}

}  // namespace
}  // namespace rondel::bench
