// SPDX-License-Identifier: Apache-2.0
#include "tests/support/reference.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <cstring>
#include <limits>

#include "lib/check.h"
#include "tests/support/seed.h"

namespace rondel::test {

namespace {

// A floating format by its field widths; enough to read and write any of them through double.
struct Format {
  int exponent_bits;
  int fraction_bits;
};

Format format_of(DataType type) {
  if (type == DataType::float16) return {5, 10};
  if (type == DataType::bfloat16) return {8, 7};
  if (type == DataType::float32) return {8, 23};
  return {11, 52};
}

std::uint64_t load(const std::byte* from, std::size_t bytes) {
  std::uint64_t bits = 0;
  std::memcpy(&bits, from, bytes);
  return bits;
}

void store(std::byte* to, std::size_t bytes, std::uint64_t bits) { std::memcpy(to, &bits, bytes); }

double to_double(DataType type, std::uint64_t bits) {
  const Format f = format_of(type);
  const std::uint64_t fraction = bits & ((std::uint64_t{1} << f.fraction_bits) - 1);
  const int exponent = static_cast<int>(bits >> f.fraction_bits & ((1U << f.exponent_bits) - 1));
  const bool negative = bits >> (f.fraction_bits + f.exponent_bits) & 1;
  const int bias = (1 << (f.exponent_bits - 1)) - 1;
  double magnitude = 0;
  if (exponent == 2 * bias + 1)
    magnitude =
        fraction == 0 ? std::numeric_limits<double>::infinity() : std::numeric_limits<double>::quiet_NaN();
  else if (exponent == 0)
    magnitude = std::ldexp(static_cast<double>(fraction), 1 - bias - f.fraction_bits);
  else
    magnitude = std::ldexp(static_cast<double>(fraction + (std::uint64_t{1} << f.fraction_bits)),
                           exponent - bias - f.fraction_bits);
  return negative ? -magnitude : magnitude;
}

// Rounds to nearest even. For finite values in the type's normal range, and zero: all that inputs and results
// are.
std::uint64_t to_bits(DataType type, double value) {
  const Format f = format_of(type);
  const std::uint64_t sign = std::uint64_t{std::signbit(value)} << (f.fraction_bits + f.exponent_bits);
  if (value == 0) return sign;
  const int bias = (1 << (f.exponent_bits - 1)) - 1;
  int exponent = std::ilogb(value);
  double scaled = std::nearbyint(std::ldexp(std::fabs(value), f.fraction_bits - exponent));
  if (scaled == std::ldexp(1.0, f.fraction_bits + 1)) {
    scaled /= 2;
    ++exponent;
  }
  check(exponent + bias > 0 && exponent <= bias, "a reference value is in the normal range of its type");
  const auto fraction = static_cast<std::uint64_t>(scaled) - (std::uint64_t{1} << f.fraction_bits);
  return sign | static_cast<std::uint64_t>(exponent + bias) << f.fraction_bits | fraction;
}

std::int64_t sign_extended(DataType type, std::uint64_t bits) {
  if (type == DataType::uint8) return static_cast<std::int64_t>(bits);
  const auto unused = static_cast<int>(64 - 8 * size_of(type));
  return static_cast<std::int64_t>(bits << unused) >> unused;
}

double fold_floats(ReduceOp op, double a, double b) {
  if (op == ReduceOp::min) return std::min(a, b);
  if (op == ReduceOp::max) return std::max(a, b);
  if (op == ReduceOp::product) return a * b;
  return a + b;
}

std::uint64_t fold_integers(ReduceOp op, std::uint64_t a, std::uint64_t b) {
  switch (op) {
    case ReduceOp::min:
      return static_cast<std::int64_t>(a) < static_cast<std::int64_t>(b) ? a : b;
    case ReduceOp::max:
      return static_cast<std::int64_t>(a) > static_cast<std::int64_t>(b) ? a : b;
    case ReduceOp::product:
      return a * b;
    case ReduceOp::bit_and:
      return a & b;
    case ReduceOp::bit_or:
      return a | b;
    case ReduceOp::bit_xor:
      return a ^ b;
    default:
      return a + b;
  }
}

std::uint64_t fold_booleans(ReduceOp op, bool a, bool b) {
  if (op == ReduceOp::bit_xor) return a != b;
  const bool both = op == ReduceOp::product || op == ReduceOp::min || op == ReduceOp::bit_and;
  return both ? (a && b) : (a || b);
}

std::uint64_t reduce_element(DataType type, ReduceOp op, std::span<const Bytes> inputs, std::size_t offset) {
  const std::size_t bytes = size_of(type);
  const auto bits = [&](std::size_t rank) { return load(inputs[rank].data() + offset, bytes); };
  if (is_floating(type)) {
    double value = to_double(type, bits(0));
    for (std::size_t rank = 1; rank < inputs.size(); ++rank)
      value = fold_floats(op, value, to_double(type, bits(rank)));
    return to_bits(type, op == ReduceOp::average ? value / static_cast<double>(inputs.size()) : value);
  }
  if (type == DataType::boolean) {
    std::uint64_t value = bits(0);
    for (std::size_t rank = 1; rank < inputs.size(); ++rank)
      value = fold_booleans(op, value != 0, bits(rank) != 0);
    return value;
  }
  auto value = static_cast<std::uint64_t>(sign_extended(type, bits(0)));
  for (std::size_t rank = 1; rank < inputs.size(); ++rank)
    value = fold_integers(op, value, static_cast<std::uint64_t>(sign_extended(type, bits(rank))));
  if (op != ReduceOp::average) return value;
  const std::uint64_t wrapped = load(reinterpret_cast<const std::byte*>(&value), bytes);
  return static_cast<std::uint64_t>(sign_extended(type, wrapped) / static_cast<std::int64_t>(inputs.size()));
}

double float_input(ReduceOp op, std::uint64_t random) {
  constexpr std::array<double, 4> kFactors{1.0, -1.0, 2.0, 0.5};
  if (op == ReduceOp::product) return kFactors[random % kFactors.size()];
  return static_cast<double>(random % 17) - 8.0;
}

}  // namespace

Bytes make_input(DataType type, ReduceOp op, Rank rank, std::size_t elements, std::uint64_t seed) {
  const std::size_t bytes = size_of(type);
  Bytes data(elements * bytes);
  Random random(seed * 1'000'003 + static_cast<std::uint64_t>(rank));
  for (std::size_t i = 0; i < elements; ++i) {
    const std::uint64_t bits = random.next();
    if (is_floating(type))
      store(&data[i * bytes], bytes, to_bits(type, float_input(op, bits >> 8)));
    else
      store(&data[i * bytes], bytes, type == DataType::boolean ? bits >> 8 & 1 : bits);
  }
  return data;
}

Bytes reference_reduce(DataType type, ReduceOp op, std::span<const Bytes> inputs) {
  check(!inputs.empty() && supports(type, op), "there is something to reduce, and an operator for it");
  for (const Bytes& input : inputs) check(input.size() == inputs[0].size(), "all inputs have one length");
  Bytes result(inputs[0].size());
  for (std::size_t offset = 0; offset < result.size(); offset += size_of(type))
    store(&result[offset], size_of(type), reduce_element(type, op, inputs, offset));
  return result;
}

double element_at(DataType type, std::span<const std::byte> data, std::size_t index) {
  const std::uint64_t bits = load(data.data() + index * size_of(type), size_of(type));
  if (is_floating(type)) return to_double(type, bits);
  return static_cast<double>(sign_extended(type, bits));
}

std::string difference(DataType type, ReduceOp op, std::span<const std::byte> found,
                       std::span<const std::byte> wanted, unsigned steps) {
  if (found.size() != wanted.size())
    return fmt::format("found {} bytes, wanted {}", found.size(), wanted.size());
  const std::size_t bytes = size_of(type);
  const bool rounded = op == ReduceOp::average && is_floating(type);
  for (std::size_t i = 0; i < wanted.size() / bytes; ++i) {
    if (std::memcmp(&found[i * bytes], &wanted[i * bytes], bytes) == 0) continue;
    const double is = element_at(type, found, i);
    const double should_be = element_at(type, wanted, i);
    // Contributions are at most 8, so that each rounding on the way errs by at most half a unit in the last
    // place of 8.
    const double tolerance = rounded ? steps * std::ldexp(8.0, -format_of(type).fraction_bits - 1) : 0;
    if (rounded && std::fabs(is - should_be) <= tolerance) continue;
    return fmt::format("element {} of {}: found {} (bits {:x}), wanted {} (bits {:x})", i,
                       wanted.size() / bytes, is, load(&found[i * bytes], bytes), should_be,
                       load(&wanted[i * bytes], bytes));
  }
  return {};
}

}  // namespace rondel::test
