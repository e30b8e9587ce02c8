// SPDX-License-Identifier: Apache-2.0
#include "tests/support/reference.h"

#include <array>
#include <catch2/catch.hpp>
#include <cstring>

namespace rondel::test {
namespace {

template <class T>
Bytes bytes_of(std::initializer_list<T> values) {
  Bytes bytes(values.size() * sizeof(T));
  std::memcpy(bytes.data(), values.begin(), bytes.size());
  return bytes;
}

TEST_CASE("the reference adds, wraps, divides and compares as written by hand") {
  const std::array floats{bytes_of<float>({1, -2}), bytes_of<float>({3, 0.5})};
  CHECK(reference_reduce(DataType::float32, ReduceOp::sum, floats) == bytes_of<float>({4, -1.5}));
  CHECK(reference_reduce(DataType::float32, ReduceOp::average, floats) == bytes_of<float>({2, -0.75}));
  const std::array small{bytes_of<std::int8_t>({127, -7}), bytes_of<std::int8_t>({1, 0})};
  CHECK(reference_reduce(DataType::int8, ReduceOp::sum, small) == bytes_of<std::int8_t>({-128, -7}));
  CHECK(reference_reduce(DataType::int8, ReduceOp::average, small) == bytes_of<std::int8_t>({-64, -3}));
  CHECK(reference_reduce(DataType::int8, ReduceOp::min, small) == bytes_of<std::int8_t>({1, -7}));
  const std::array large{bytes_of<std::uint8_t>({200, 3}), bytes_of<std::uint8_t>({100, 5})};
  CHECK(reference_reduce(DataType::uint8, ReduceOp::max, large) == bytes_of<std::uint8_t>({200, 5}));
  CHECK(reference_reduce(DataType::uint8, ReduceOp::average, large) == bytes_of<std::uint8_t>({22, 4}));
  const std::array facts{bytes_of<bool>({true, false}), bytes_of<bool>({true, true})};
  CHECK(reference_reduce(DataType::boolean, ReduceOp::sum, facts) == bytes_of<bool>({true, true}));
  CHECK(reference_reduce(DataType::boolean, ReduceOp::product, facts) == bytes_of<bool>({true, false}));
  CHECK(reference_reduce(DataType::boolean, ReduceOp::bit_xor, facts) == bytes_of<bool>({false, true}));
  const std::array halves{bytes_of<std::uint16_t>({0x3c00, 0xc000}),
                          bytes_of<std::uint16_t>({0x4000, 0x3800})};
  CHECK(reference_reduce(DataType::float16, ReduceOp::sum, halves) ==
        bytes_of<std::uint16_t>({0x4200, 0xbe00}));
  const std::array brains{bytes_of<std::uint16_t>({0x3f80}), bytes_of<std::uint16_t>({0x4000})};
  CHECK(reference_reduce(DataType::bfloat16, ReduceOp::product, brains) == bytes_of<std::uint16_t>({0x4000}));
}

TEST_CASE("inputs depend on rank and position") {
  for (std::size_t type = 0; type < kDataTypeCount; ++type) {
    const auto t = static_cast<DataType>(type);
    const Bytes first = make_input(t, ReduceOp::sum, 0, 200);
    CHECK(first != make_input(t, ReduceOp::sum, 1, 200));
    CHECK(first == make_input(t, ReduceOp::sum, 0, 200));
    Bytes shifted(first.begin() + static_cast<std::ptrdiff_t>(size_of(t)), first.end());
    CHECK(shifted != Bytes(first.begin(), first.end() - static_cast<std::ptrdiff_t>(size_of(t))));
  }
}

TEST_CASE("differences are told, and only averages of floats may round") {
  const Bytes wanted = bytes_of<float>({1, 2, 3});
  const Bytes close = bytes_of<float>({1, 2, 3.0000005F});
  CHECK(difference(DataType::float32, ReduceOp::sum, wanted, wanted) == "");
  CHECK(difference(DataType::float32, ReduceOp::sum, close, wanted).find("element 2 of 3") == 0);
  CHECK(difference(DataType::float32, ReduceOp::average, close, wanted) == "");
  CHECK(difference(DataType::float32, ReduceOp::average, bytes_of<float>({1, 2, 3.1F}), wanted) != "");
  CHECK(difference(DataType::float32, ReduceOp::sum, bytes_of<float>({1}), wanted) ==
        "found 4 bytes, wanted 12");
}

}  // namespace
}  // namespace rondel::test
