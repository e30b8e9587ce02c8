// SPDX-License-Identifier: Apache-2.0
// What a reduction must give, computed slowly and plainly, without lib's kernels; and inputs for it that
// depend on rank and position, so that a wrong chunk, offset or hop shows. Pure functions, any thread.
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "lib/memory.h"
#include "lib/types.h"

namespace rondel::test {

/// `elements` elements of `rank`'s contribution. Integers use their whole range (results wrap). Floats are
/// such that sums of up to 30 ranks and products of up to 12 are exact in every type, in any order. Booleans
/// are 0 or 1.
Bytes make_input(DataType type, ReduceOp op, Rank rank, std::size_t elements, std::uint64_t seed = 1);

/// op over inputs[0], inputs[1], ...: all of one length. Average: the sum (wrapping for integers) divided by
/// their number, integers towards zero.
Bytes reference_reduce(DataType type, ReduceOp op, std::span<const Bytes> inputs);

/// Empty when `found` is right, else "element 17: found 3, wanted 5". Bit for bit, except that an average of
/// floats may be off by rounding: `steps` roundings of the type.
std::string difference(DataType type, ReduceOp op, std::span<const std::byte> found,
                       std::span<const std::byte> wanted, unsigned steps = 8);

/// One element as a number, for messages and tolerances.
double element_at(DataType type, std::span<const std::byte> data, std::size_t index);

}  // namespace rondel::test
