// SPDX-License-Identifier: Apache-2.0
#include "lib/types.h"

#include <catch2/catch.hpp>
#include <set>
#include <string>

namespace {

using rondel::DataType;
using rondel::ReduceOp;

constexpr DataType type_at(std::size_t index) { return static_cast<DataType>(index); }
constexpr ReduceOp op_at(std::size_t index) { return static_cast<ReduceOp>(index); }

TEST_CASE("types: sizes") {
  CHECK(size_of(DataType::int8) == 1);
  CHECK(size_of(DataType::uint8) == 1);
  CHECK(size_of(DataType::boolean) == 1);
  CHECK(size_of(DataType::int16) == 2);
  CHECK(size_of(DataType::float16) == 2);
  CHECK(size_of(DataType::bfloat16) == 2);
  CHECK(size_of(DataType::int32) == 4);
  CHECK(size_of(DataType::float32) == 4);
  CHECK(size_of(DataType::int64) == 8);
  CHECK(size_of(DataType::float64) == 8);
}

TEST_CASE("types: every name is its own and parses back") {
  std::set<std::string> names;
  for (std::size_t i = 0; i < rondel::kDataTypeCount; ++i) {
    names.emplace(name_of(type_at(i)));
    CHECK(rondel::parse_data_type(name_of(type_at(i))) == type_at(i));
  }
  CHECK(names.size() == rondel::kDataTypeCount);
  names.clear();
  for (std::size_t i = 0; i < rondel::kReduceOpCount; ++i) {
    names.emplace(name_of(op_at(i)));
    CHECK(rondel::parse_reduce_op(name_of(op_at(i))) == op_at(i));
  }
  CHECK(names.size() == rondel::kReduceOpCount);
}

TEST_CASE("types: the names that users know stand for what they say") {
  CHECK(rondel::parse_data_type("bfloat16") == DataType::bfloat16);
  CHECK(rondel::parse_data_type("float64") == DataType::float64);
  CHECK(rondel::parse_data_type("bool") == DataType::boolean);
  CHECK(rondel::parse_reduce_op("average") == ReduceOp::average);
  CHECK(rondel::parse_reduce_op("bit_xor") == ReduceOp::bit_xor);
}

TEST_CASE("types: unknown names are refused") {
  for (const char* name : {"", "float", "FLOAT32", "float32 ", "int128"})
    CHECK_FALSE(rondel::parse_data_type(name));
  for (const char* name : {"", "avg", "SUM", "bit_", "sum "}) CHECK_FALSE(rondel::parse_reduce_op(name));
}

TEST_CASE("types: bitwise operators are for integers and booleans, averages for numbers, the rest for all") {
  for (std::size_t t = 0; t < rondel::kDataTypeCount; ++t) {
    const DataType type = type_at(t);
    INFO(name_of(type));
    for (const ReduceOp op : {ReduceOp::sum, ReduceOp::min, ReduceOp::max, ReduceOp::product})
      CHECK(supports(type, op));
    for (const ReduceOp op : {ReduceOp::bit_and, ReduceOp::bit_or, ReduceOp::bit_xor})
      CHECK(supports(type, op) != is_floating(type));
    CHECK(supports(type, ReduceOp::average) == (type != DataType::boolean));
  }
  CHECK(is_floating(DataType::float16));
  CHECK(is_floating(DataType::float64));
  CHECK_FALSE(is_floating(DataType::int64));
  CHECK(is_half(DataType::bfloat16));
  CHECK_FALSE(is_half(DataType::int16));
}

}  // namespace
