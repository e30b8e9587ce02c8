// SPDX-License-Identifier: Apache-2.0
// Lanes: how each element type is loaded into registers, combined and stored, written once for every register
// width. `Isa` says what differs: width, float extremes, float16 conversion. Included only by the files
// compiled for one instruction set, through reduce_kernels_vector.h; pure functions, any thread.
#pragma once

#include <cstddef>
#include <cstdint>
#include <type_traits>

#include "lib/types.h"

namespace rondel::vector_kernels {

// Integers are kept as unsigned lanes, where wrapping is defined; only min and max look at the sign.
template <class Isa, class T>
struct IntegerLanes {
  using Unsigned = std::make_unsigned_t<T>;
  typedef Unsigned Value __attribute__((vector_size(Isa::kBytes)));
  typedef T Signed __attribute__((vector_size(Isa::kBytes)));
  static constexpr std::size_t kElements = Isa::kBytes / sizeof(T);

  [[gnu::always_inline]] static Value load(const std::byte* data) {
    Value value;
    __builtin_memcpy(&value, data, sizeof value);
    return value;
  }
  template <std::size_t kRegisters>
  [[gnu::always_inline]] static void store(std::byte* data, const Value (&values)[kRegisters]) {
    __builtin_memcpy(data, values, sizeof values);
  }

  template <ReduceOp op>
  [[gnu::always_inline]] static Value combine(Value a, Value b) {
    if constexpr (op == ReduceOp::min)
      return reinterpret_cast<Signed>(a) < reinterpret_cast<Signed>(b) ? a : b;
    if constexpr (op == ReduceOp::max)
      return reinterpret_cast<Signed>(a) < reinterpret_cast<Signed>(b) ? b : a;
    if constexpr (op == ReduceOp::product) return a * b;
    if constexpr (op == ReduceOp::bit_and) return a & b;
    if constexpr (op == ReduceOp::bit_or) return a | b;
    if constexpr (op == ReduceOp::bit_xor) return a ^ b;
    return a + b;
  }
};

template <class Isa>
struct BooleanLanes : IntegerLanes<Isa, std::uint8_t> {
  using Base = IntegerLanes<Isa, std::uint8_t>;
  using Value = typename Base::Value;

  [[gnu::always_inline]] static Value load(const std::byte* data) {
    return reinterpret_cast<Value>(Base::load(data) != 0) & 1;
  }

  template <ReduceOp op>
  [[gnu::always_inline]] static Value combine(Value a, Value b) {
    if constexpr (op == ReduceOp::sum || op == ReduceOp::max || op == ReduceOp::bit_or) return a | b;
    if constexpr (op == ReduceOp::bit_xor) return a ^ b;
    return a & b;
  }
};

// Stores what `Lanes` computed in float. A NaN may have any bits while it is in a register; memory gets the
// canonical one. NaNs are rare and looking for one in several registers at once is cheap, so replacing them
// has its own path.
template <class Isa, class Lanes, class Value, std::size_t kRegisters>
[[gnu::always_inline]] inline void store_floats(std::byte* data, const Value (&values)[kRegisters]) {
  auto unordered = Lanes::unordered(values[0], values[kRegisters - 1]);
  for (std::size_t r = 1; r + 1 < kRegisters; r += 2) unordered |= Lanes::unordered(values[r], values[r + 1]);
  if (Isa::any(unordered)) [[unlikely]] {
    for (std::size_t r = 0; r < kRegisters; ++r)
      Lanes::store_ordered(data + r * Isa::kBytes, Lanes::canonical(values[r]));
  } else {
    for (std::size_t r = 0; r < kRegisters; ++r) Lanes::store_ordered(data + r * Isa::kBytes, values[r]);
  }
}

template <class Isa, class T>
struct FloatLanes {
  using Scalar = T;
  typedef T Value __attribute__((vector_size(Isa::kBytes)));
  static constexpr std::size_t kElements = Isa::kBytes / sizeof(T);

  [[gnu::always_inline]] static Value load(const std::byte* data) {
    Value value;
    __builtin_memcpy(&value, data, sizeof value);
    return value;
  }
  template <std::size_t kRegisters>
  [[gnu::always_inline]] static void store(std::byte* data, const Value (&values)[kRegisters]) {
    store_floats<Isa, FloatLanes>(data, values);
  }
  [[gnu::always_inline]] static void store_ordered(std::byte* data, Value value) {
    __builtin_memcpy(data, &value, sizeof value);
  }
  [[gnu::always_inline]] static auto unordered(Value a, Value b) { return Isa::unordered(a, b); }
  [[gnu::always_inline]] static Value canonical(Value value) { return Isa::canonical(value); }

  template <ReduceOp op>
  [[gnu::always_inline]] static Value combine(Value a, Value b) {
    if constexpr (op == ReduceOp::min) return Isa::lesser(a, b);
    if constexpr (op == ReduceOp::max) return Isa::greater(a, b);
    if constexpr (op == ReduceOp::product) return a * b;
    return a + b;
  }
  [[gnu::always_inline]] static Value times(Value a, T factor) { return a * factor; }
  [[gnu::always_inline]] static Value over(Value a, T divisor) { return a / divisor; }
  [[gnu::always_inline]] static Value mean(Value a, Value b, T a_share, T b_share) {
    return a * a_share + b * b_share;
  }
};

// Both 16-bit floats: one register of stored elements becomes two registers of float32.
template <class Isa, class Format>
struct HalfLanes {
  using Scalar = float;
  using Wide = FloatLanes<Isa, float>;
  struct Value {
    typename Wide::Value x, y;
  };
  static constexpr std::size_t kElements = Isa::kBytes / 2;

  [[gnu::always_inline]] static Value load(const std::byte* data) {
    return Format::template load<Value>(data);
  }
  template <std::size_t kRegisters>
  [[gnu::always_inline]] static void store(std::byte* data, const Value (&values)[kRegisters]) {
    store_floats<Isa, HalfLanes>(data, values);
  }
  [[gnu::always_inline]] static void store_ordered(std::byte* data, Value value) {
    Format::store(data, value);
  }
  [[gnu::always_inline]] static auto unordered(Value a, Value b) {
    return Isa::unordered(a.x, a.y) | Isa::unordered(b.x, b.y);
  }
  [[gnu::always_inline]] static Value canonical(Value value) {
    return {Isa::canonical(value.x), Isa::canonical(value.y)};
  }

  template <ReduceOp op>
  [[gnu::always_inline]] static Value combine(Value a, Value b) {
    return {Wide::template combine<op>(a.x, b.x), Wide::template combine<op>(a.y, b.y)};
  }
  [[gnu::always_inline]] static Value times(Value a, float factor) { return {a.x * factor, a.y * factor}; }
  [[gnu::always_inline]] static Value over(Value a, float divisor) { return {a.x / divisor, a.y / divisor}; }
  [[gnu::always_inline]] static Value mean(Value a, Value b, float a_share, float b_share) {
    return {Wide::mean(a.x, b.x, a_share, b_share), Wide::mean(a.y, b.y, a_share, b_share)};
  }
};

template <class Isa>
struct Float16Format {
  template <class Pair>
  [[gnu::always_inline]] static Pair load(const std::byte* data) {
    return {Isa::load_float16(data), Isa::load_float16(data + Isa::kBytes / 2)};
  }
  template <class Pair>
  [[gnu::always_inline]] static void store(std::byte* data, Pair pair) {
    Isa::store_float16(data, pair.x);
    Isa::store_float16(data + Isa::kBytes / 2, pair.y);
  }
};

// bfloat16 is the upper half of float32: even elements are shifted into place, odd ones are in place already.
template <class Isa>
struct Bfloat16Format {
  using Bits = typename IntegerLanes<Isa, std::uint32_t>::Value;
  using Floats = typename FloatLanes<Isa, float>::Value;

  template <class Pair>
  [[gnu::always_inline]] static Pair load(const std::byte* data) {
    Bits bits;
    __builtin_memcpy(&bits, data, sizeof bits);
    return {reinterpret_cast<Floats>(bits << 16), reinterpret_cast<Floats>(bits & 0xffff0000U)};
  }
  template <class Pair>
  [[gnu::always_inline]] static void store(std::byte* data, Pair pair) {
    const Bits bits = rounded(pair.x) >> 16 | (rounded(pair.y) & 0xffff0000U);
    __builtin_memcpy(data, &bits, sizeof bits);
  }
  // To nearest even in the upper half. The canonical NaN and infinity come through unchanged.
  [[gnu::always_inline]] static Bits rounded(Floats value) {
    const Bits bits = reinterpret_cast<Bits>(value);
    return bits + 0x7fffU + (bits >> 16 & 1U);
  }
};

}  // namespace rondel::vector_kernels
