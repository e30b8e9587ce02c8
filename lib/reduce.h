// SPDX-License-Identifier: Apache-2.0
// Element-wise reduction kernels with run-time dispatch over instruction sets (scalar, AVX2, AVX-512). Pure
// functions on memory the caller owns, any thread. No alignment is required. Every instruction set gives the
// same bits.
//
// Rules: integers wrap and are exact; float16 and bfloat16 are computed in float32 and rounded once per call,
// to nearest even; a NaN operand makes any result NaN, and every NaN written is the canonical quiet NaN of
// the type; min and max put -0.0 below +0.0. So op(a, b) and op(b, a) have the same bits (16-bit average
// apart). Booleans are 0 or 1 (any non-zero byte counts as 1): sum, max, bit_or = or; product, min, bit_and =
// and; bit_xor = xor. `supports(type, op)` must hold.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <string_view>

#include "lib/types.h"

namespace rondel {

/// destination[i] = op(first[i], second[i]) for `elements` elements.
/// `destination` may be exactly `first` or exactly `second`; other overlap is not allowed.
/// average: for 16-bit floats it is the weighted mean first*(1 - second_share) + second*second_share, which
/// can not overflow on the way (see `divide` for the other types, where average folds like sum and is divided
/// at the end).
void fold(DataType type, ReduceOp op, void* destination, const void* first, const void* second,
          std::size_t elements, float second_share = 0.5F);

/// destination[i] = op over sources[0][i], sources[1][i], ... in that order, in one pass over memory; 16-bit
/// types accumulate in float32 and round once. average divides by sources.size() (floats by true division,
/// integers towards zero), and can not overflow on the way for 16-bit floats. At least one source;
/// `destination` may be exactly one of the sources, other overlap is not allowed.
void fold_many(DataType type, ReduceOp op, void* destination, std::span<const void* const> sources,
               std::size_t elements);

/// The same, written to each of `destinations` as it is computed. At least one; none may be a part of
/// another.
void fold_many(DataType type, ReduceOp op, std::span<void* const> destinations,
               std::span<const void* const> sources, std::size_t elements);

/// data[i] /= divisor: true division for floats, towards zero for integers. The last step of an average by
/// ring.
void divide(DataType type, void* data, std::size_t elements, std::uint64_t divisor);

/// data[i] *= factor, computed in float64 for float64 and in float32 for other floats; integers are refused
/// by the caller. Used for pre- and post-scaling.
void scale(DataType type, void* data, std::size_t elements, double factor);

/// Which kernels run here: "scalar", "avx2" or "avx512".
std::string_view reduce_instruction_set();

}  // namespace rondel
