// SPDX-License-Identifier: Apache-2.0
// The table of kernels that one instruction set provides, and which sets this machine can run. Private to
// lib/reduce and its tests; everybody else calls lib/reduce.h. Immutable, any thread. The files that fill a
// table are compiled for their instruction set, so they must emit nothing that the linker could share with
// other files: internal linkage throughout, no calls of inline functions of the library.
#pragma once

#include <cstddef>
#include <cstdint>
#include <utility>
#include <vector>

#include "lib/types.h"

namespace rondel {

struct ReduceKernels {
  using Fold = void (*)(void* destination, const void* first, const void* second, std::size_t elements,
                        float second_share);
  /// The same result to each of `destinations`.
  using FoldMany = void (*)(void* const* destinations, std::size_t destination_count,
                            const void* const* sources, std::size_t count, std::size_t elements);
  using Divide = void (*)(void* data, std::size_t elements, std::uint64_t divisor);
  using Scale = void (*)(void* data, std::size_t elements, double factor);

  const char* name = "";
  Fold fold[kDataTypeCount][kReduceOpCount] = {};
  /// Integers have no average here: lib/reduce.cc divides their sum.
  FoldMany fold_many[kDataTypeCount][kReduceOpCount] = {};
  /// Floats only, except in the scalar table, which has the integers for everybody.
  Divide divide[kDataTypeCount] = {};
  Scale scale[kDataTypeCount] = {};
};

/// The sum under an average of bfloat16 would overflow float32, which reaches no further than it. So each
/// term is made smaller first, by a factor that changes no bit of the result: the least bfloat16 times it is
/// the least float32. Enough for 2^16 sources.
inline constexpr float kBfloat16AverageScale = 0x1p-16F;

/// Fills a table from `Set`, whose static templates fold<type, op>, fold_many<type, op>, divide<type> and
/// scale<type> are the kernels. `Set` lives in an anonymous namespace, and so everything made from it does.
template <class Set>
constexpr ReduceKernels make_reduce_kernels(const char* name) {
  ReduceKernels table;
  table.name = name;
  const auto fill_pair = [&table]<std::size_t Index>() {
    constexpr auto kType = static_cast<DataType>(Index / kReduceOpCount);
    constexpr auto kOp = static_cast<ReduceOp>(Index % kReduceOpCount);
    if constexpr (supports(kType, kOp)) {
      table.fold[Index / kReduceOpCount][Index % kReduceOpCount] = &Set::template fold<kType, kOp>;
      if constexpr (kOp != ReduceOp::average || is_floating(kType))
        table.fold_many[Index / kReduceOpCount][Index % kReduceOpCount] =
            &Set::template fold_many<kType, kOp>;
    }
  };
  const auto fill_type = [&table]<std::size_t Index>() {
    constexpr auto kType = static_cast<DataType>(Index);
    if constexpr (Set::template divides<kType>) table.divide[Index] = &Set::template divide<kType>;
    if constexpr (is_floating(kType)) table.scale[Index] = &Set::template scale<kType>;
  };
  [&]<std::size_t... Index>(std::index_sequence<Index...>) { (fill_pair.template operator()<Index>(), ...); }
  (std::make_index_sequence<kDataTypeCount * kReduceOpCount>{});
  [&]<std::size_t... Index>(std::index_sequence<Index...>) { (fill_type.template operator()<Index>(), ...); }
  (std::make_index_sequence<kDataTypeCount>{});
  return table;
}

const ReduceKernels& scalar_reduce_kernels();
const ReduceKernels& avx2_reduce_kernels();    // x86-64 only
const ReduceKernels& avx512_reduce_kernels();  // x86-64 only

/// Every table that this machine can run, slowest first; never empty.
const std::vector<const ReduceKernels*>& usable_reduce_kernels();

}  // namespace rondel
