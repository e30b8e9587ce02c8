// SPDX-License-Identifier: Apache-2.0
#include "bench/pattern.h"

#include <algorithm>
#include <cmath>
#include <cstring>

#include "lib/half.h"

namespace rondel::bench {
namespace {

/// A cheap hash of 32 bits; good enough that neighbours in position, rank and seed differ.
constexpr std::uint32_t mix(std::uint32_t x) {
  x ^= x >> 16;
  x *= 0x7feb352dU;
  x ^= x >> 15;
  x *= 0x846ca68bU;
  return x ^ (x >> 16);
}

constexpr std::uint32_t hash(std::size_t index, std::uint32_t rank, std::uint32_t salt) {
  const auto low = static_cast<std::uint32_t>(index);
  const auto high = static_cast<std::uint32_t>(index >> 32);
  return mix(low ^ (high * 0x9e3779b1U) ^ mix(rank * 0x85ebca77U + salt));
}

/// A number in [0, bound), without a division.
constexpr std::uint32_t below(std::uint32_t bound, std::uint32_t random) {
  return static_cast<std::uint32_t>((std::uint64_t{random} * bound) >> 32);
}

/// The largest integer up to which the type holds every integer.
constexpr std::uint32_t largest_exact(DataType type) {
  switch (type) {
    case DataType::boolean:
      return 1;
    case DataType::int8:
      return 127;
    case DataType::uint8:
      return 255;
    case DataType::bfloat16:
      return 256;
    case DataType::float16:
      return 2048;
    case DataType::int16:
      return 32767;
    default:
      return 1U << 24;
  }
}

constexpr std::uint32_t kLargestValue = 97;  // enough to tell positions apart, small enough to sum many ranks
constexpr Rank kRanksWithPowers = 6;         // 2^6 fits every type

template <class T>
struct Plain {
  using Storage = T;
  static T encode(std::int64_t value) { return static_cast<T>(value); }
};
struct Float16 {
  using Storage = std::uint16_t;
  static Storage encode(std::int64_t value) { return float32_to_float16(static_cast<float>(value)); }
  static double decode(Storage bits) { return float16_to_float32(bits); }
  static constexpr double kRounding = 0x1p-11;
};
struct Bfloat16 {
  using Storage = std::uint16_t;
  static Storage encode(std::int64_t value) { return float32_to_bfloat16(static_cast<float>(value)); }
  static double decode(Storage bits) { return bfloat16_to_float32(bits); }
  static constexpr double kRounding = 0x1p-8;
};

/// Calls `function` with the element format of `type`.
template <class Function>
auto with_format(DataType type, const Function& function) {
  switch (type) {
    case DataType::int8:
      return function(Plain<std::int8_t>());
    case DataType::uint8:
    case DataType::boolean:
      return function(Plain<std::uint8_t>());
    case DataType::int16:
      return function(Plain<std::int16_t>());
    case DataType::int32:
      return function(Plain<std::int32_t>());
    case DataType::int64:
      return function(Plain<std::int64_t>());
    case DataType::float16:
      return function(Float16());
    case DataType::bfloat16:
      return function(Bfloat16());
    case DataType::float32:
      return function(Plain<float>());
    case DataType::float64:
      break;
  }
  return function(Plain<double>());
}

template <class Storage>
Storage load(const void* data, std::size_t i) {
  Storage value;
  std::memcpy(&value, static_cast<const std::byte*>(data) + i * sizeof(Storage), sizeof value);
  return value;
}

/// Whether `found` is the mean of values up to `largest` that sum to `sum`; exact but for 16-bit floats,
/// which round each time that a rank's share is folded in.
template <class Format>
bool is_average(typename Format::Storage found, std::int64_t sum, Rank ranks, std::uint32_t largest) {
  if constexpr (requires { Format::kRounding; }) {
    const double tolerance = Format::kRounding * ranks * largest;
    return std::abs(Format::decode(found) - static_cast<double>(sum) / ranks) <= tolerance;
  } else {
    using Storage = typename Format::Storage;
    if constexpr (std::is_floating_point_v<Storage>)
      return found == static_cast<Storage>(sum) / static_cast<Storage>(ranks);
    else
      return found == Format::encode(sum / ranks);
  }
}

}  // namespace

Pattern::Pattern(DataType type, std::optional<ReduceOp> op, Rank ranks, std::uint32_t seed)
    : type_(type), op_(op), ranks_(ranks), seed_(seed), kind_(kind_of(type, op)) {
  const std::uint32_t limit = largest_exact(type);
  const bool adds_up = op && *op != ReduceOp::bit_xor;
  most_ = adds_up ? std::clamp(limit / static_cast<std::uint32_t>(ranks), 1U, kLargestValue) : limit;
  if (kind_ == Kind::powers)
    ranks_with_values_ = kRanksWithPowers;
  else if (adds_up)
    ranks_with_values_ = static_cast<Rank>(limit);
  else
    ranks_with_values_ = ranks;
}

Pattern::Kind Pattern::kind_of(DataType type, std::optional<ReduceOp> op) {
  if (!op) return is_floating(type) || type == DataType::boolean ? Kind::small : Kind::bits;
  const bool boolean = type == DataType::boolean;
  switch (*op) {
    case ReduceOp::sum:
    case ReduceOp::average:
    case ReduceOp::max:
      return boolean ? Kind::mostly_zeros : Kind::small;
    case ReduceOp::min:
      return boolean ? Kind::mostly_ones : Kind::small;
    case ReduceOp::product:
      return boolean ? Kind::mostly_ones : Kind::powers;
    case ReduceOp::bit_and:
      return Kind::mostly_ones;
    case ReduceOp::bit_or:
      return Kind::mostly_zeros;
    case ReduceOp::bit_xor:
      break;
  }
  return boolean ? Kind::small : Kind::bits;
}

bool Pattern::has_a_turn(Rank rank, std::size_t index) const {
  const std::uint32_t turn = below(static_cast<std::uint32_t>(ranks_), hash(index, 0, seed_ + 1));
  return (rank + static_cast<Rank>(turn)) % ranks_ < ranks_with_values_;
}

std::int64_t Pattern::value(Rank rank, std::size_t index) const {
  const auto r = static_cast<std::uint32_t>(rank);
  const std::uint32_t random = hash(index, r, seed_);
  const bool counts = ranks_ <= ranks_with_values_ || has_a_turn(rank, index);
  switch (kind_) {
    case Kind::small:
      return counts ? below(most_ + 1, random) : 0;
    case Kind::powers:
      return counts ? 1 + (random & 1U) : 1;
    case Kind::bits:
      return static_cast<std::int64_t>((std::uint64_t{random} << 32) | mix(random));
    case Kind::mostly_zeros:
    case Kind::mostly_ones:
      break;
  }
  // One rank at most differs at a position, so that each rank's part in the result shows.
  const std::uint32_t chosen = below(static_cast<std::uint32_t>(ranks_) + 1, hash(index, 0, seed_ + 1));
  const bool one_hot = kind_ == Kind::mostly_zeros;
  if (type_ == DataType::boolean) return (chosen == r) == one_hot ? 1 : 0;
  const std::int64_t bits =
      chosen == r ? static_cast<std::int64_t>((std::uint64_t{random} << 32) | random) : 0;
  return one_hot ? bits : ~bits;
}

std::int64_t Pattern::combine(std::int64_t a, std::int64_t b) const {
  const bool boolean = type_ == DataType::boolean;
  switch (op_.value_or(ReduceOp::sum)) {
    case ReduceOp::sum:
    case ReduceOp::average:
      return boolean ? (a | b) : a + b;
    case ReduceOp::min:
      return std::min(a, b);
    case ReduceOp::max:
      return std::max(a, b);
    case ReduceOp::product:
      return a * b;
    case ReduceOp::bit_and:
      return a & b;
    case ReduceOp::bit_or:
      return a | b;
    case ReduceOp::bit_xor:
      break;
  }
  return a ^ b;
}

std::int64_t Pattern::reduce(std::size_t index) const {
  std::int64_t result = value(0, index);
  for (Rank rank = 1; rank < ranks_; ++rank) result = combine(result, value(rank, index));
  return result;
}

void Pattern::fill(void* to, Rank rank, std::size_t first, std::size_t elements) const {
  with_format(type_, [this, to, rank, first, elements](auto format) {
    using Format = decltype(format);
    auto* const out = static_cast<std::byte*>(to);
    for (std::size_t i = 0; i < elements; ++i) {
      const typename Format::Storage encoded = Format::encode(value(rank, first + i));
      std::memcpy(out + i * sizeof encoded, &encoded, sizeof encoded);
    }
    return 0;
  });
}

std::size_t Pattern::count_wrong_copies(const void* data, Rank source, std::size_t first,
                                        std::size_t elements) const {
  return with_format(type_, [this, data, source, first, elements](auto format) {
    using Format = decltype(format);
    std::size_t wrong = 0;
    for (std::size_t i = 0; i < elements; ++i)
      wrong += load<typename Format::Storage>(data, i) != Format::encode(value(source, first + i));
    return wrong;
  });
}

std::size_t Pattern::count_wrong_results(const void* data, std::size_t first, std::size_t elements) const {
  const bool average = op_ == ReduceOp::average;
  return with_format(type_, [this, data, first, elements, average](auto format) {
    using Format = decltype(format);
    std::size_t wrong = 0;
    for (std::size_t i = 0; i < elements; ++i) {
      const auto found = load<typename Format::Storage>(data, i);
      const std::int64_t expected = reduce(first + i);
      wrong +=
          average ? !is_average<Format>(found, expected, ranks_, most_) : found != Format::encode(expected);
    }
    return wrong;
  });
}

}  // namespace rondel::bench
