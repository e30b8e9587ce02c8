// SPDX-License-Identifier: Apache-2.0
// The words every other file speaks: ranks, element types and reduction operators, with their sizes, names
// and which of them go together. Plain data, any thread; knows nothing of buffers, peers or algorithms.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <string_view>

namespace rondel {

using Rank = std::int32_t;
inline constexpr Rank kNoRank = -1;
inline constexpr Rank kMostRanks = 65'536;  ///< of one job

enum class DataType : std::uint8_t {
  int8,
  uint8,
  int16,
  int32,
  int64,
  float16,
  bfloat16,
  float32,
  float64,
  boolean
};
inline constexpr std::size_t kDataTypeCount = 10;

enum class ReduceOp : std::uint8_t { sum, average, min, max, product, bit_and, bit_or, bit_xor };
inline constexpr std::size_t kReduceOpCount = 8;

constexpr std::size_t size_of(DataType type) {
  constexpr std::array<std::uint8_t, kDataTypeCount> kBytes{1, 1, 2, 4, 8, 2, 2, 4, 8, 1};
  return kBytes[static_cast<std::size_t>(type)];
}

constexpr bool is_half(DataType type) { return type == DataType::float16 || type == DataType::bfloat16; }
constexpr bool is_floating(DataType type) {
  return is_half(type) || type == DataType::float32 || type == DataType::float64;
}

/// Bitwise operators are for integers and booleans; a boolean has no average.
constexpr bool supports(DataType type, ReduceOp op) {
  const bool bitwise = op == ReduceOp::bit_and || op == ReduceOp::bit_or || op == ReduceOp::bit_xor;
  if (bitwise) return !is_floating(type);
  return !(op == ReduceOp::average && type == DataType::boolean);
}

constexpr std::string_view name_of(DataType type) {
  constexpr std::array<std::string_view, kDataTypeCount> kNames{
      "int8", "uint8", "int16", "int32", "int64", "float16", "bfloat16", "float32", "float64", "bool"};
  return kNames[static_cast<std::size_t>(type)];
}

constexpr std::string_view name_of(ReduceOp op) {
  constexpr std::array<std::string_view, kReduceOpCount> kNames{"sum",     "average", "min",    "max",
                                                                "product", "bit_and", "bit_or", "bit_xor"};
  return kNames[static_cast<std::size_t>(op)];
}

constexpr std::optional<DataType> parse_data_type(std::string_view name) {
  for (std::size_t i = 0; i < kDataTypeCount; ++i)
    if (name_of(static_cast<DataType>(i)) == name) return static_cast<DataType>(i);
  return std::nullopt;
}

constexpr std::optional<ReduceOp> parse_reduce_op(std::string_view name) {
  for (std::size_t i = 0; i < kReduceOpCount; ++i)
    if (name_of(static_cast<ReduceOp>(i)) == name) return static_cast<ReduceOp>(i);
  return std::nullopt;
}

}  // namespace rondel
