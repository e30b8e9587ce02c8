// SPDX-License-Identifier: Apache-2.0
// The vector kernels, written once for every register width: how each element type is loaded, combined and
// stored (lanes), and the loops over arrays. `Isa` says what differs: width, float extremes, float16
// conversion, partial loads. Included only by the files compiled for one instruction set; pure functions, any
// thread. Each template takes an `Isa` from an anonymous namespace, which gives it internal linkage (see
// lib/reduce_kernels.h).
#pragma once

#include <cstddef>
#include <cstdint>
#include <type_traits>

#include "lib/reduce_kernels.h"

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

template <class Isa, DataType type>
constexpr auto lanes_of() {
  if constexpr (type == DataType::int8) return std::type_identity<IntegerLanes<Isa, std::int8_t>>{};
  if constexpr (type == DataType::uint8) return std::type_identity<IntegerLanes<Isa, std::uint8_t>>{};
  if constexpr (type == DataType::int16) return std::type_identity<IntegerLanes<Isa, std::int16_t>>{};
  if constexpr (type == DataType::int32) return std::type_identity<IntegerLanes<Isa, std::int32_t>>{};
  if constexpr (type == DataType::int64) return std::type_identity<IntegerLanes<Isa, std::int64_t>>{};
  if constexpr (type == DataType::float16) return std::type_identity<HalfLanes<Isa, Float16Format<Isa>>>{};
  if constexpr (type == DataType::bfloat16) return std::type_identity<HalfLanes<Isa, Bfloat16Format<Isa>>>{};
  if constexpr (type == DataType::float32) return std::type_identity<FloatLanes<Isa, float>>{};
  if constexpr (type == DataType::float64) return std::type_identity<FloatLanes<Isa, double>>{};
  if constexpr (type == DataType::boolean) return std::type_identity<BooleanLanes<Isa>>{};
}
template <class Isa, DataType type>
using Lanes = typename decltype(lanes_of<Isa, type>())::type;

// destination = function(sources[0], ..., sources[count - 1]) by whole registers, `kUnroll` at a time, and a
// partial one at the end. All loads of a step come before its stores, so the destination may be one of the
// sources.
template <class Isa, class Lanes, std::size_t kUnroll, class Combine, class Finish>
struct Loop {
  std::byte* destination;
  const std::byte* const* sources;
  std::size_t count;
  Combine combine;
  Finish finish;

  template <std::size_t kRegisters>
  [[gnu::always_inline]] void step(std::size_t offset) const {
    typename Lanes::Value sums[kRegisters];
    for (std::size_t r = 0; r < kRegisters; ++r) sums[r] = Lanes::load(sources[0] + offset + r * Isa::kBytes);
    for (std::size_t s = 1; s < count; ++s) {
      const std::byte* source = sources[s] + offset;
      for (std::size_t r = 0; r < kRegisters; ++r)
        sums[r] = combine(sums[r], Lanes::load(source + r * Isa::kBytes));
    }
    for (std::size_t r = 0; r < kRegisters; ++r) sums[r] = finish(sums[r]);
    Lanes::store(destination + offset, sums);
  }

  [[gnu::always_inline]] void partial_step(std::size_t offset, std::size_t bytes) const {
    alignas(Isa::kBytes) std::byte stage[Isa::kBytes];
    Isa::copy_in(stage, sources[0] + offset, bytes);
    typename Lanes::Value sum[1] = {Lanes::load(stage)};
    for (std::size_t s = 1; s < count; ++s) {
      Isa::copy_in(stage, sources[s] + offset, bytes);
      sum[0] = combine(sum[0], Lanes::load(stage));
    }
    sum[0] = finish(sum[0]);
    Lanes::store(stage, sum);
    Isa::copy_out(destination + offset, stage, bytes);
  }

  [[gnu::always_inline]] void run(std::size_t elements) const {
    const std::size_t bytes = elements * (Isa::kBytes / Lanes::kElements);
    std::size_t done = 0;
    for (; bytes - done >= kUnroll * Isa::kBytes; done += kUnroll * Isa::kBytes) step<kUnroll>(done);
    for (; bytes - done >= Isa::kBytes; done += Isa::kBytes) step<1>(done);
    if (done < bytes) partial_step(done, bytes - done);
  }
};

template <class Isa, class Lanes, std::size_t kUnroll, class Combine, class Finish>
[[gnu::always_inline]] inline void run_loop(void* destination, const void* const* sources, std::size_t count,
                                            std::size_t elements, Combine combine, Finish finish) {
  Loop<Isa, Lanes, kUnroll, Combine, Finish>{static_cast<std::byte*>(destination),
                                             reinterpret_cast<const std::byte* const*>(sources), count,
                                             combine, finish}
      .run(elements);
}

template <class Isa>
struct VectorSet {
  template <DataType type>
  static constexpr bool divides = is_floating(type);

  template <DataType type, ReduceOp op>
  static void fold(void* destination, const void* first, const void* second, std::size_t elements,
                   float second_share) {
    using L = Lanes<Isa, type>;
    using Value = typename L::Value;
    const void* const sources[2] = {first, second};
    const auto keep = [](Value a) __attribute__((always_inline)) { return a; };
    if constexpr (op == ReduceOp::average && is_half(type)) {
      const float first_share = 1.0F - second_share;
      const auto mean = [=](Value a, Value b) __attribute__((always_inline)) {
        return L::mean(a, b, first_share, second_share);
      };
      run_loop<Isa, L, 2>(destination, sources, 2, elements, mean, keep);
    } else {
      const auto combine = [](Value a, Value b) __attribute__((always_inline)) {
        return L::template combine<op>(a, b);
      };
      run_loop<Isa, L, 4>(destination, sources, 2, elements, combine, keep);
    }
  }

  template <DataType type, ReduceOp op>
  static void fold_many(void* destination, const void* const* sources, std::size_t count,
                        std::size_t elements) {
    using L = Lanes<Isa, type>;
    using Value = typename L::Value;
    const auto combine = [](Value a, Value b) __attribute__((always_inline)) {
      return L::template combine<op>(a, b);
    };
    if constexpr (op == ReduceOp::average) {
      const auto divisor = static_cast<typename L::Scalar>(count);
      const auto average = [divisor](Value a) __attribute__((always_inline)) { return L::over(a, divisor); };
      run_loop<Isa, L, 4>(destination, sources, count, elements, combine, average);
    } else {
      const auto keep = [](Value a) __attribute__((always_inline)) { return a; };
      run_loop<Isa, L, 4>(destination, sources, count, elements, combine, keep);
    }
  }

  template <DataType type>
  static void scale(void* data, std::size_t elements, double factor) {
    using L = Lanes<Isa, type>;
    using Value = typename L::Value;
    const auto multiplier = static_cast<typename L::Scalar>(factor);
    map<L>(
        data,
        elements, [multiplier](Value a) __attribute__((always_inline)) { return L::times(a, multiplier); });
  }

  // A power of two divides exactly as its reciprocal multiplies, and multiplying is several times faster.
  template <DataType type>
  static void divide(void* data, std::size_t elements, std::uint64_t divisor) {
    using L = Lanes<Isa, type>;
    using Value = typename L::Value;
    const auto scalar = static_cast<typename L::Scalar>(divisor);
    if ((divisor & (divisor - 1)) == 0)
      return scale<type>(data, elements, 1.0 / static_cast<double>(divisor));
    map<L>(
        data, elements, [scalar](Value a) __attribute__((always_inline)) { return L::over(a, scalar); });
  }

 private:
  template <class L, class Function>
  [[gnu::always_inline]] static void map(void* data, std::size_t elements, Function function) {
    using Value = typename L::Value;
    const void* const sources[1] = {data};
    const auto unused = [](Value a, Value) __attribute__((always_inline)) { return a; };
    run_loop<Isa, L, 4>(data, sources, 1, elements, unused, function);
  }
};

}  // namespace rondel::vector_kernels
