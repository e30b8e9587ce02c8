// SPDX-License-Identifier: Apache-2.0
// float16 and bfloat16 to and from float32, one value at a time. Pure, constexpr, any thread. To 16 bits
// rounds to nearest even; subnormals, infinities and the sign of zero are kept; a NaN stays a NaN (made
// quiet, sign and upper payload kept, as x86 converts it). Arrays are converted by the kernels behind
// lib/reduce.h, not here.
#pragma once

#include <bit>
#include <cstdint>

namespace rondel {

constexpr float bfloat16_to_float32(std::uint16_t bits) {
  const bool nan = (bits & 0x7fffU) > 0x7f80U;
  return std::bit_cast<float>((static_cast<std::uint32_t>(bits) | (nan ? 0x40U : 0U)) << 16);
}

constexpr std::uint16_t float32_to_bfloat16(float value) {
  const auto bits = std::bit_cast<std::uint32_t>(value);
  if ((bits & 0x7fffffffU) > 0x7f800000U) return static_cast<std::uint16_t>((bits >> 16) | 0x40U);
  return static_cast<std::uint16_t>((bits + 0x7fffU + ((bits >> 16) & 1U)) >> 16);
}

constexpr float float16_to_float32(std::uint16_t bits) {
  const std::uint32_t sign = (bits & 0x8000U) << 16;
  const std::uint32_t exponent = (bits >> 10) & 0x1fU;
  const std::uint32_t fraction = bits & 0x3ffU;
  if (exponent == 0x1f) {
    const std::uint32_t quiet = fraction != 0 ? 0x400000U : 0U;
    return std::bit_cast<float>(sign | 0x7f800000U | quiet | (fraction << 13));
  }
  if (exponent == 0) {  // zero or subnormal: fraction * 2^-24 is exact in float32
    const float magnitude = static_cast<float>(fraction) * 0x1p-24F;
    return std::bit_cast<float>(sign | std::bit_cast<std::uint32_t>(magnitude));
  }
  return std::bit_cast<float>(sign | ((exponent + 112U) << 23) | (fraction << 13));
}

constexpr std::uint16_t float32_to_float16(float value) {
  const auto bits = std::bit_cast<std::uint32_t>(value);
  const std::uint32_t sign = (bits >> 16) & 0x8000U;
  const std::uint32_t magnitude = bits & 0x7fffffffU;
  if (magnitude > 0x7f800000U)
    return static_cast<std::uint16_t>(sign | 0x7e00U | ((magnitude >> 13) & 0x3ffU));
  if (magnitude >= 0x47800000U) return static_cast<std::uint16_t>(sign | 0x7c00U);  // 2^16 and above
  if (magnitude >=
      0x38800000U) {  // normal in float16; a carry out of the fraction rightly bumps the exponent
    const std::uint32_t rebased = magnitude - (112U << 23);
    return static_cast<std::uint16_t>(sign | ((rebased + 0xfffU + ((rebased >> 13) & 1U)) >> 13));
  }
  if (magnitude < 0x33000000U) return static_cast<std::uint16_t>(sign);  // below 2^-25: zero
  const std::uint32_t fraction = (magnitude & 0x7fffffU) | 0x800000U;
  const std::uint32_t shift = 126U - (magnitude >> 23);  // 14..24
  const std::uint32_t half_unit = 1U << (shift - 1);
  const std::uint32_t odd = (fraction >> shift) & 1U;
  return static_cast<std::uint16_t>(sign | ((fraction + half_unit - 1U + odd) >> shift));
}

}  // namespace rondel
