// SPDX-License-Identifier: Apache-2.0
// The vector kernels, written once for every register width: the loops over arrays, on the lanes of
// reduce_lanes.h. `Isa` says what differs. Included only by the files compiled for one instruction set; pure
// functions, any thread. Each template takes an `Isa` from an anonymous namespace, which gives it internal
// linkage (see lib/reduce_kernels.h).
#pragma once

#include <cstddef>
#include <cstdint>
#include <type_traits>

#include "lib/reduce_kernels.h"
#include "lib/reduce_lanes.h"

namespace rondel::vector_kernels {

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

/// Lanes for an average of bfloat16; see kBfloat16AverageScale.
template <class L>
struct ScaledLanes : L {
  using Value = typename L::Value;
  [[gnu::always_inline]] static Value load(const std::byte* data) {
    return L::times(L::load(data), kBfloat16AverageScale);
  }
};

// Each destination = function(sources[0], ..., sources[count - 1]) by whole registers, `kUnroll` at a time,
// and a partial one at the end. All loads of a step come before its stores, so a destination may be one of
// the sources.
template <class Isa, class Lanes, std::size_t kUnroll, class Combine, class Finish>
struct Loop {
  std::byte* const* destinations;
  std::size_t destination_count;
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
    Lanes::store(destinations[0] + offset, sums);
    for (std::size_t d = 1; d < destination_count; ++d) Lanes::store(destinations[d] + offset, sums);
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
    for (std::size_t d = 0; d < destination_count; ++d) Isa::copy_out(destinations[d] + offset, stage, bytes);
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
[[gnu::always_inline]] inline void run_loop(void* const* destinations, std::size_t destination_count,
                                            const void* const* sources, std::size_t count,
                                            std::size_t elements, Combine combine, Finish finish) {
  Loop<Isa, Lanes, kUnroll, Combine, Finish>{reinterpret_cast<std::byte* const*>(destinations),
                                             destination_count,
                                             reinterpret_cast<const std::byte* const*>(sources),
                                             count,
                                             combine,
                                             finish}
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
      const auto mean = [ first_share, second_share ](Value a, Value b) __attribute__((always_inline)) {
        return L::mean(a, b, first_share, second_share);
      };
      run_loop<Isa, L, 2>(&destination, 1, sources, 2, elements, mean, keep);
    } else {
      const auto combine = [](Value a, Value b) __attribute__((always_inline)) {
        return L::template combine<op>(a, b);
      };
      run_loop<Isa, L, 4>(&destination, 1, sources, 2, elements, combine, keep);
    }
  }

  template <DataType type, ReduceOp op>
  static void fold_many(void* const* destinations, std::size_t destination_count, const void* const* sources,
                        std::size_t count, std::size_t elements) {
    using L = Lanes<Isa, type>;
    using Value = typename L::Value;
    const auto combine = [](Value a, Value b) __attribute__((always_inline)) {
      return L::template combine<op>(a, b);
    };
    if constexpr (op == ReduceOp::average) {
      constexpr bool kScaled = type == DataType::bfloat16;
      using Terms = std::conditional_t<kScaled, ScaledLanes<L>, L>;
      const auto divisor = static_cast<typename L::Scalar>(count) * (kScaled ? kBfloat16AverageScale : 1);
      const auto average = [divisor](Value a) __attribute__((always_inline)) { return L::over(a, divisor); };
      run_loop<Isa, Terms, 4>(destinations, destination_count, sources, count, elements, combine, average);
    } else {
      const auto keep = [](Value a) __attribute__((always_inline)) { return a; };
      run_loop<Isa, L, 4>(destinations, destination_count, sources, count, elements, combine, keep);
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
    run_loop<Isa, L, 4>(&data, 1, sources, 1, elements, unused, function);
  }
};

}  // namespace rondel::vector_kernels
