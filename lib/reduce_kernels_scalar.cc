// SPDX-License-Identifier: Apache-2.0
// The reference kernels: plain loops over single values, for machines without AVX2 and as the truth that the
// vector kernels are tested against.
#include <cmath>
#include <cstring>
#include <limits>
#include <type_traits>

#include "lib/half.h"
#include "lib/reduce_kernels.h"

namespace rondel {
namespace {

// How a type lies in memory (Stored) and what it is computed in (Value).
template <class T>
struct Plain {
  using Stored = T;
  using Value = T;
  static Value decode(Stored stored) { return stored; }
  static Stored encode(Value value) { return value; }
};

template <class T>
struct Floating : Plain<T> {
  static T encode(T value) { return std::isnan(value) ? std::numeric_limits<T>::quiet_NaN() : value; }
};

struct Float16 {
  using Stored = std::uint16_t;
  using Value = float;
  static Value decode(Stored stored) { return float16_to_float32(stored); }
  static Stored encode(Value value) { return float32_to_float16(Floating<float>::encode(value)); }
};

struct Bfloat16 {
  using Stored = std::uint16_t;
  using Value = float;
  static Value decode(Stored stored) { return bfloat16_to_float32(stored); }
  static Stored encode(Value value) { return float32_to_bfloat16(Floating<float>::encode(value)); }
};

struct Boolean {
  using Stored = std::uint8_t;
  using Value = std::uint8_t;
  static Value decode(Stored stored) { return stored != 0 ? 1 : 0; }
  static Stored encode(Value value) { return value; }
};

template <DataType type>
constexpr auto format_of() {
  if constexpr (type == DataType::int8) return Plain<std::int8_t>{};
  if constexpr (type == DataType::uint8) return Plain<std::uint8_t>{};
  if constexpr (type == DataType::int16) return Plain<std::int16_t>{};
  if constexpr (type == DataType::int32) return Plain<std::int32_t>{};
  if constexpr (type == DataType::int64) return Plain<std::int64_t>{};
  if constexpr (type == DataType::float16) return Float16{};
  if constexpr (type == DataType::bfloat16) return Bfloat16{};
  if constexpr (type == DataType::float32) return Floating<float>{};
  if constexpr (type == DataType::float64) return Floating<double>{};
  if constexpr (type == DataType::boolean) return Boolean{};
}
template <DataType type>
using Format = decltype(format_of<type>());

template <class F>
typename F::Value load(const std::byte* data, std::size_t index) {
  typename F::Stored stored;
  std::memcpy(&stored, data + index * sizeof stored, sizeof stored);
  return F::decode(stored);
}

template <class F>
void store(std::byte* data, std::size_t index, typename F::Value value) {
  const typename F::Stored stored = F::encode(value);
  std::memcpy(data + index * sizeof stored, &stored, sizeof stored);
}

// Extremes do not depend on the order of operands: -0.0 is less than +0.0, and a NaN on either side wins.
template <class T>
T lesser(T a, T b) {
  if constexpr (std::is_floating_point_v<T>) {
    if (std::isnan(a) || std::isnan(b)) return std::numeric_limits<T>::quiet_NaN();
    if (a == b) return std::signbit(a) ? a : b;
  }
  return a < b ? a : b;
}

template <class T>
T greater(T a, T b) {
  if constexpr (std::is_floating_point_v<T>) {
    if (std::isnan(a) || std::isnan(b)) return std::numeric_limits<T>::quiet_NaN();
    if (a == b) return std::signbit(a) ? b : a;
  }
  return a < b ? b : a;
}

// Integers are computed in an unsigned type at least as wide as int, where wrapping is defined and the low
// bits right.
template <class T>
using Wrapping = std::conditional_t<sizeof(T) == 8, std::uint64_t, std::uint32_t>;

template <ReduceOp op, class T>
T combine(T a, T b) {
  if constexpr (op == ReduceOp::min) {
    return lesser(a, b);
  } else if constexpr (op == ReduceOp::max) {
    return greater(a, b);
  } else if constexpr (std::is_floating_point_v<T>) {
    return op == ReduceOp::product ? a * b : a + b;
  } else {
    const auto x = static_cast<Wrapping<T>>(a);
    const auto y = static_cast<Wrapping<T>>(b);
    if constexpr (op == ReduceOp::product) return static_cast<T>(x * y);
    if constexpr (op == ReduceOp::bit_and) return static_cast<T>(x & y);
    if constexpr (op == ReduceOp::bit_or) return static_cast<T>(x | y);
    if constexpr (op == ReduceOp::bit_xor) return static_cast<T>(x ^ y);
    return static_cast<T>(x + y);
  }
}

// A boolean knows only or, and, xor.
template <DataType type, ReduceOp op>
constexpr ReduceOp effective_op() {
  if (type != DataType::boolean) return op;
  if (op == ReduceOp::sum || op == ReduceOp::max) return ReduceOp::bit_or;
  if (op == ReduceOp::product || op == ReduceOp::min) return ReduceOp::bit_and;
  return op;
}

// Towards zero. The quotients of narrow integers are taken in a float wide enough that rounding can not reach
// the next integer (relative distance at least 1/value), because only those divisions have vector
// instructions.
template <class T>
T quotient(T value, std::uint64_t divisor) {
  if constexpr (std::is_floating_point_v<T>) {
    return value / static_cast<T>(divisor);
  } else if constexpr (sizeof(T) <= 2) {
    return static_cast<T>(static_cast<float>(value) / static_cast<float>(divisor));
  } else if constexpr (sizeof(T) == 4) {
    return static_cast<T>(static_cast<double>(value) / static_cast<double>(divisor));
  } else {
    const auto bits = static_cast<std::uint64_t>(value);
    return value < 0 ? static_cast<T>(0 - (0 - bits) / divisor) : static_cast<T>(bits / divisor);
  }
}

struct ScalarSet {
  template <DataType type>
  static constexpr bool divides = type != DataType::boolean;

  template <DataType type, ReduceOp op>
  static void fold(void* destination, const void* first, const void* second, std::size_t elements,
                   float second_share) {
    using F = Format<type>;
    const auto* a = static_cast<const std::byte*>(first);
    const auto* b = static_cast<const std::byte*>(second);
    auto* out = static_cast<std::byte*>(destination);
    if constexpr (op == ReduceOp::average && is_half(type)) {
      const float first_share = 1.0F - second_share;
      for (std::size_t i = 0; i < elements; ++i)
        store<F>(out, i, load<F>(a, i) * first_share + load<F>(b, i) * second_share);
    } else {
      for (std::size_t i = 0; i < elements; ++i)
        store<F>(out, i, combine<effective_op<type, op>()>(load<F>(a, i), load<F>(b, i)));
    }
  }

  template <DataType type, ReduceOp op>
  static void fold_many(void* const* destinations, std::size_t destination_count, const void* const* sources,
                        std::size_t count, std::size_t elements) {
    using F = Format<type>;
    constexpr std::size_t kBlock = 256;
    constexpr bool kScaled = op == ReduceOp::average && type == DataType::bfloat16;
    const auto term = [](const void* source, std::size_t index) {
      const auto value = load<F>(static_cast<const std::byte*>(source), index);
      if constexpr (kScaled) return value * kBfloat16AverageScale;
      return value;
    };
    typename F::Value sums[kBlock];
    for (std::size_t begin = 0; begin < elements; begin += kBlock) {
      const std::size_t size = elements - begin < kBlock ? elements - begin : kBlock;
      for (std::size_t i = 0; i < size; ++i) sums[i] = term(sources[0], begin + i);
      for (std::size_t s = 1; s < count; ++s)
        for (std::size_t i = 0; i < size; ++i)
          sums[i] = combine<effective_op<type, op>()>(sums[i], term(sources[s], begin + i));
      for (std::size_t i = 0; i < size; ++i) {
        if constexpr (kScaled) sums[i] /= static_cast<float>(count) * kBfloat16AverageScale;
        if constexpr (op == ReduceOp::average && !kScaled) sums[i] = quotient(sums[i], count);
        for (std::size_t d = 0; d < destination_count; ++d)
          store<F>(static_cast<std::byte*>(destinations[d]), begin + i, sums[i]);
      }
    }
  }

  template <DataType type>
  static void divide(void* data, std::size_t elements, std::uint64_t divisor) {
    using F = Format<type>;
    auto* bytes = static_cast<std::byte*>(data);
    for (std::size_t i = 0; i < elements; ++i) store<F>(bytes, i, quotient(load<F>(bytes, i), divisor));
  }

  template <DataType type>
  static void scale(void* data, std::size_t elements, double factor) {
    using F = Format<type>;
    const auto multiplier = static_cast<typename F::Value>(factor);
    auto* bytes = static_cast<std::byte*>(data);
    for (std::size_t i = 0; i < elements; ++i) store<F>(bytes, i, load<F>(bytes, i) * multiplier);
  }
};

constexpr ReduceKernels kTable = make_reduce_kernels<ScalarSet>("scalar");

}  // namespace

const ReduceKernels& scalar_reduce_kernels() { return kTable; }

}  // namespace rondel
