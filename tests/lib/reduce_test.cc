// SPDX-License-Identifier: Apache-2.0
// What users of lib/reduce.h may rely on, by example. Bit-for-bit comparison of the kernels:
// reduce_kernels_test.cc.
#include "lib/reduce.h"

#include <array>
#include <catch2/catch.hpp>
#include <cmath>
#include <cstdint>
#include <cstring>
#include <limits>
#include <random>
#include <vector>

#include "lib/half.h"
#include "lib/reduce_kernels.h"

namespace {

using rondel::DataType;
using rondel::ReduceOp;
using Sizes = std::initializer_list<std::size_t>;

template <class T>
std::vector<T> folded(DataType type, ReduceOp op, std::vector<T> first, const std::vector<T>& second,
                      float share = 0.5F) {
  rondel::fold(type, op, first.data(), first.data(), second.data(), first.size(), share);
  return first;
}

template <class T>
std::vector<T> folded_many(DataType type, ReduceOp op, const std::vector<std::vector<T>>& sources) {
  std::vector<const void*> pointers;
  for (const auto& source : sources) pointers.push_back(source.data());
  std::vector<T> result(sources.front().size());
  rondel::fold_many(type, op, result.data(), pointers, result.size());
  return result;
}

std::uint32_t bits_of(float value) { return std::bit_cast<std::uint32_t>(value); }
const float kNan = std::numeric_limits<float>::quiet_NaN();
const float kInfinity = std::numeric_limits<float>::infinity();

TEST_CASE("reduce: the best usable instruction set is the one that runs") {
  CHECK(rondel::reduce_instruction_set() == rondel::usable_reduce_kernels().back()->name);
}

TEST_CASE("reduce: no elements touch no memory, not even through null pointers") {
  rondel::fold(DataType::float32, ReduceOp::sum, nullptr, nullptr, nullptr, 0);
  const std::array<const void*, 2> sources{nullptr, nullptr};
  rondel::fold_many(DataType::int32, ReduceOp::average, nullptr, sources, 0);
  rondel::fold_many(DataType::bfloat16, ReduceOp::average, nullptr, sources, 0);
  rondel::divide(DataType::int8, nullptr, 0, 3);
  rondel::scale(DataType::float16, nullptr, 0, 3.0);
  CHECK(folded<float>(DataType::float32, ReduceOp::sum, {}, {}).empty());
}

TEST_CASE("reduce: integers are exact beyond what a float holds, and wrap") {
  CHECK(folded<std::int64_t>(DataType::int64, ReduceOp::sum, {9007199254740993, INT64_MAX}, {0, 1}) ==
        std::vector<std::int64_t>{9007199254740993, INT64_MIN});
  CHECK(folded<std::int8_t>(DataType::int8, ReduceOp::product, {100, -128}, {3, -1}) ==
        std::vector<std::int8_t>{44, -128});
  CHECK(folded<std::uint8_t>(DataType::uint8, ReduceOp::max, {200, 3}, {100, 4}) ==
        std::vector<std::uint8_t>{200, 4});
  CHECK(folded<std::int8_t>(DataType::int8, ReduceOp::max, {-56, 3}, {100, 4}) ==
        std::vector<std::int8_t>{100, 4});
  CHECK(folded<std::int16_t>(DataType::int16, ReduceOp::bit_xor, {0x0ff0}, {0x00ff}) ==
        std::vector<std::int16_t>{0x0f0f});
}

TEST_CASE("reduce: booleans stay 0 or 1 whatever non-zero byte comes in") {
  const std::vector<std::uint8_t> first{1, 0, 2, 0}, second{1, 1, 0xff, 0};
  using Booleans = std::vector<std::uint8_t>;
  for (const ReduceOp op : {ReduceOp::sum, ReduceOp::max, ReduceOp::bit_or})
    CHECK(folded(DataType::boolean, op, first, second) == Booleans{1, 1, 1, 0});
  for (const ReduceOp op : {ReduceOp::product, ReduceOp::min, ReduceOp::bit_and})
    CHECK(folded(DataType::boolean, op, first, second) == Booleans{1, 0, 1, 0});
  CHECK(folded(DataType::boolean, ReduceOp::bit_xor, first, second) == Booleans{0, 1, 0, 0});
  CHECK(folded_many<std::uint8_t>(DataType::boolean, ReduceOp::sum, {{7, 0}}) == Booleans{1, 0});
}

TEST_CASE("reduce: a NaN on any rank makes min and max the canonical NaN, whichever rank holds it") {
  for (const ReduceOp op : {ReduceOp::min, ReduceOp::max})
    for (std::size_t ranks = 2; ranks <= 5; ++ranks)
      for (std::size_t holder = 0; holder < ranks; ++holder) {
        std::vector<std::vector<float>> inputs;
        for (std::size_t rank = 0; rank < ranks; ++rank)
          inputs.push_back({rank == holder ? -kNan : static_cast<float>(rank), static_cast<float>(rank)});
        const std::vector<float> result = folded_many(DataType::float32, op, inputs);
        CHECK(bits_of(result[0]) == 0x7fc00000U);
        CHECK(result[1] == (op == ReduceOp::min ? 0.0F : static_cast<float>(ranks - 1)));
      }
}

TEST_CASE("reduce: a NaN sum or product has the same bits on either side") {
  const auto payload = std::bit_cast<float>(0xff812345U);
  for (const ReduceOp op : {ReduceOp::sum, ReduceOp::product}) {
    CHECK(bits_of(folded<float>(DataType::float32, op, {payload}, {kNan})[0]) == 0x7fc00000U);
    CHECK(bits_of(folded<float>(DataType::float32, op, {kNan}, {payload})[0]) == 0x7fc00000U);
  }
  CHECK(bits_of(folded<float>(DataType::float32, ReduceOp::sum, {kInfinity}, {-kInfinity})[0]) ==
        0x7fc00000U);
  CHECK(bits_of(folded<float>(DataType::float32, ReduceOp::product, {kInfinity}, {0.0F})[0]) == 0x7fc00000U);
}

TEST_CASE("reduce: signed zeros and subnormals survive") {
  CHECK(bits_of(folded<float>(DataType::float32, ReduceOp::sum, {-0.0F}, {-0.0F})[0]) == 0x80000000U);
  CHECK(bits_of(folded_many<float>(DataType::float32, ReduceOp::sum, {{-0.0F}, {-0.0F}, {-0.0F}})[0]) ==
        0x80000000U);
  CHECK(folded<float>(DataType::float32, ReduceOp::sum, {1e-45F}, {0.0F})[0] == 1e-45F);
  CHECK(folded<std::uint16_t>(DataType::bfloat16, ReduceOp::sum, {0x0001}, {0x0000}) ==
        std::vector<std::uint16_t>{1});
  CHECK(folded<std::uint16_t>(DataType::float16, ReduceOp::sum, {0x8000}, {0x8000}) ==
        std::vector<std::uint16_t>{0x8000});
  for (const auto& [first, second] : {std::pair{0.0F, -0.0F}, std::pair{-0.0F, 0.0F}}) {
    CHECK(bits_of(folded<float>(DataType::float32, ReduceOp::min, {first}, {second})[0]) == 0x80000000U);
    CHECK(bits_of(folded<float>(DataType::float32, ReduceOp::max, {first}, {second})[0]) == 0U);
  }
}

TEST_CASE("reduce: 16-bit values accumulate in float32 and round once") {
  // 1 + 2^-9 four times: each single addition to 1 would be lost in bfloat16.
  const std::uint16_t one = 0x3f80, tiny = rondel::float32_to_bfloat16(0x1p-9F);
  const auto sum =
      folded_many<std::uint16_t>(DataType::bfloat16, ReduceOp::sum, {{one}, {tiny}, {tiny}, {tiny}, {tiny}});
  CHECK(rondel::bfloat16_to_float32(sum[0]) == 1.0F + 0x1p-7F);
}

TEST_CASE("reduce: the average of four float16 of 20000 is 20000, at once and by folding") {
  const std::uint16_t value = rondel::float32_to_float16(20000.0F);
  const std::vector<std::uint16_t> column(67, value);
  CHECK(folded_many<std::uint16_t>(DataType::float16, ReduceOp::average, {column, column, column, column}) ==
        column);
  std::vector<std::uint16_t> mean = column;
  for (int rank = 1; rank < 4; ++rank)
    mean = folded(DataType::float16, ReduceOp::average, mean, column, 1.0F / static_cast<float>(rank + 1));
  CHECK(mean == column);
}

TEST_CASE("reduce: the average of the greatest 16-bit numbers is the greatest") {
  for (const auto& [type, greatest] :
       {std::pair{DataType::float16, 0x7bff}, std::pair{DataType::bfloat16, 0x7f7f}})
    for (const std::size_t ranks : Sizes{2, 3, 8}) {
      const std::vector<std::uint16_t> column(67, static_cast<std::uint16_t>(greatest));
      CHECK(folded_many(type, ReduceOp::average, std::vector(ranks, column)) == column);
    }
}

TEST_CASE("reduce: the average of equal values is that value for any number of ranks") {
  std::mt19937 random(7);
  std::vector<std::uint16_t> values;
  while (values.size() < 500)  // finite in both formats
    values.push_back(static_cast<std::uint16_t>(random() & 0xbbffU));
  for (const DataType type : {DataType::float16, DataType::bfloat16})
    for (const std::size_t ranks : Sizes{3, 5, 7, 10}) {
      std::vector<std::uint16_t> mean = values;
      for (std::size_t rank = 1; rank < ranks; ++rank)
        mean = folded(type, ReduceOp::average, mean, values, 1.0F / static_cast<float>(rank + 1));
      CHECK(mean == values);
      CHECK(folded_many(type, ReduceOp::average, std::vector(ranks, values)) == values);
    }
}

TEST_CASE("reduce: integer averages go towards zero, after a sum that wraps") {
  const std::vector<std::vector<std::int32_t>> inputs{{-7, 7, INT32_MAX}, {0, 0, 1}};
  CHECK(folded_many(DataType::int32, ReduceOp::average, inputs) ==
        std::vector<std::int32_t>{-3, 3, INT32_MIN / 2});
  CHECK(folded_many<std::int8_t>(DataType::int8, ReduceOp::average, {{100}, {100}}) ==
        std::vector<std::int8_t>{-28});
}

TEST_CASE("reduce: long integer averages are cut in blocks without a seam, also in place") {
  constexpr std::size_t kElements = 30011;
  std::vector<std::int16_t> first(kElements), second(kElements), expected(kElements);
  for (std::size_t i = 0; i < kElements; ++i) {
    first[i] = static_cast<std::int16_t>(i % 16000);
    second[i] = static_cast<std::int16_t>(-3 * static_cast<int>(i % 5000));
    expected[i] = static_cast<std::int16_t>((first[i] + second[i]) / 2);
  }
  const std::array<const void*, 2> sources{first.data(), second.data()};
  std::vector<std::int16_t> third(kElements);
  const std::array<void*, 3> destinations{second.data(), third.data(), first.data()};
  rondel::fold_many(DataType::int16, ReduceOp::average, destinations, sources, kElements);
  CHECK(second == expected);
  CHECK(third == expected);
  CHECK(first == expected);
}

// The ends of the type, random values, and the multiples of the divisor with the values just below them,
// which a quotient that was rounded gets wrong first.
template <class T>
std::vector<T> dividends(std::uint64_t divisor, std::mt19937_64& random) {
  std::vector<T> values{0, 1, std::numeric_limits<T>::min(), std::numeric_limits<T>::max()};
  while (values.size() < 100) values.push_back(static_cast<T>(random()));
  while (values.size() < 400) {
    const std::uint64_t steps = static_cast<std::uint64_t>(std::numeric_limits<T>::max()) / divisor + 1;
    const std::uint64_t multiple = random() % steps * divisor;
    for (const std::uint64_t value : {multiple, multiple - 1, 0 - multiple, 1 - multiple})
      values.push_back(static_cast<T>(value));
  }
  return values;
}

template <class T>
void check_quotients(DataType type) {
  std::mt19937_64 random(11);
  std::vector<std::uint64_t> divisors{32768, 65535, 1ULL << 31, 1ULL << 32, 1ULL << 63, ~0ULL};
  for (std::uint64_t divisor = 1; divisor <= 300; ++divisor) divisors.push_back(divisor);
  for (int i = 0; i < 100; ++i) divisors.push_back(random() >> (random() % 64) | 1);
  for (const std::uint64_t divisor : divisors) {
    const std::vector<T> values = dividends<T>(divisor, random);
    std::vector<T> actual = values;
    rondel::divide(type, actual.data(), actual.size(), divisor);
    std::size_t wrong = 0;
    for (std::size_t i = 0; i < values.size(); ++i) {
      const auto bits = static_cast<std::uint64_t>(values[i]);
      const std::uint64_t magnitude = (values[i] < 0 ? 0 - bits : bits) / divisor;
      wrong += static_cast<std::uint64_t>(actual[i]) != (values[i] < 0 ? 0 - magnitude : magnitude);
    }
    INFO(name_of(type) << " / " << divisor);
    CHECK(wrong == 0);
  }
}

TEST_CASE("reduce: divide gives the exact integer quotient for any divisor") {
  check_quotients<std::int8_t>(DataType::int8);
  check_quotients<std::uint8_t>(DataType::uint8);
  check_quotients<std::int16_t>(DataType::int16);
  check_quotients<std::int32_t>(DataType::int32);
  check_quotients<std::int64_t>(DataType::int64);
}

TEST_CASE("reduce: divide and scale of floats") {
  std::vector<float> values{1.0F, -3.0F, 1e-45F, kInfinity};
  rondel::divide(DataType::float32, values.data(), values.size(), 3);
  CHECK(values == std::vector<float>{1.0F / 3.0F, -1.0F, 0.0F, kInfinity});
  std::vector<double> wide{0.1, -0.0};
  rondel::scale(DataType::float64, wide.data(), wide.size(), 0.1);
  CHECK(wide[0] == 0.1 * 0.1);
  CHECK(std::signbit(wide[1]));
}

}  // namespace
