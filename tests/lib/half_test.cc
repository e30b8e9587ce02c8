// SPDX-License-Identifier: Apache-2.0
#include "lib/half.h"

#include <catch2/catch.hpp>
#include <cmath>
#include <cstdint>
#include <limits>

namespace {

using rondel::bfloat16_to_float32;
using rondel::float16_to_float32;
using rondel::float32_to_bfloat16;
using rondel::float32_to_float16;

constexpr std::uint32_t kPatterns = 65536;
constexpr float kInfinity = std::numeric_limits<float>::infinity();

// The value of a 16-bit pattern by the definition of the format.
double value_of(std::uint16_t bits, int fraction_bits, int bias) {
  const int exponent = (bits & 0x7fff) >> fraction_bits;
  const int fraction = bits & ((1 << fraction_bits) - 1);
  const double significand = exponent == 0 ? fraction : fraction + (1 << fraction_bits);
  const double magnitude = std::ldexp(significand, std::max(exponent, 1) - bias - fraction_bits);
  return (bits & 0x8000) != 0 ? -magnitude : magnitude;
}

struct Format {
  float (*widen)(std::uint16_t);
  std::uint16_t (*narrow)(float);
  int fraction_bits, bias;
  std::uint16_t infinity;
  bool is_nan(std::uint16_t bits) const { return (bits & 0x7fff) > infinity; }
};
const Format kFloat16{&float16_to_float32, &float32_to_float16, 10, 15, 0x7c00};
const Format kBfloat16{&bfloat16_to_float32, &float32_to_bfloat16, 7, 127, 0x7f80};

void check_every_pattern(const Format& format) {
  std::uint32_t wrong = 0;
  for (std::uint32_t pattern = 0; pattern < kPatterns; ++pattern) {
    const auto bits = static_cast<std::uint16_t>(pattern);
    const float wide = format.widen(bits);
    if (format.is_nan(bits)) {
      const std::uint16_t back = format.narrow(wide);
      wrong += !std::isnan(wide) || !format.is_nan(back) || (back & 0x8000) != (bits & 0x8000);
    } else if ((bits & 0x7fff) == format.infinity) {
      wrong += wide != ((bits & 0x8000) != 0 ? -kInfinity : kInfinity) || format.narrow(wide) != bits;
    } else {
      const double expected = value_of(bits, format.fraction_bits, format.bias);
      wrong +=
          wide != expected || std::signbit(wide) != std::signbit(expected) || format.narrow(wide) != bits;
    }
  }
  CHECK(wrong == 0);
}

// Between any two neighbours: the midpoint goes to the even one, one float32 step beside it to the nearer
// one.
void check_every_midpoint(const Format& format) {
  std::uint32_t wrong = 0;
  for (std::uint16_t low = 0; low < format.infinity; ++low) {
    const auto high = static_cast<std::uint16_t>(low + 1);
    const double below = value_of(low, format.fraction_bits, format.bias);
    const double above =
        value_of(high, format.fraction_bits, format.bias);        // for infinity: the next power of two
    const auto middle = static_cast<float>((below + above) / 2);  // exact: one more fraction bit
    const std::uint16_t even = (low & 1) == 0 ? low : high;
    wrong += format.narrow(middle) != even;
    wrong += format.narrow(std::nextafter(middle, 0.0F)) != low;
    wrong += format.narrow(std::nextafter(middle, kInfinity)) != high;
    wrong += format.narrow(-middle) != (even | 0x8000);
  }
  CHECK(wrong == 0);
}

TEST_CASE("float16: all 65536 patterns widen to their value and come back") { check_every_pattern(kFloat16); }
TEST_CASE("bfloat16: all 65536 patterns widen to their value and come back") {
  check_every_pattern(kBfloat16);
}
TEST_CASE("float16: rounds to nearest even between all neighbours") { check_every_midpoint(kFloat16); }
TEST_CASE("bfloat16: rounds to nearest even between all neighbours") { check_every_midpoint(kBfloat16); }

TEST_CASE("half: values beyond the range become infinity, tiny ones zero with their sign") {
  CHECK(float32_to_float16(65519.996F) == 0x7bff);
  CHECK(float32_to_float16(65520.0F) == 0x7c00);
  CHECK(float32_to_float16(-1e30F) == 0xfc00);
  CHECK(float32_to_float16(0x1p-25F) == 0x0000);
  CHECK(float32_to_float16(-0x1.8p-25F) == 0x8001);
  CHECK(float32_to_float16(-1e-40F) == 0x8000);
  CHECK(float32_to_bfloat16(std::numeric_limits<float>::max()) == 0x7f80);
  CHECK(float32_to_bfloat16(-std::numeric_limits<float>::denorm_min()) == 0x8000);
}

TEST_CASE("half: a NaN whose payload lies in the lost bits stays a NaN") {
  const auto low_payload = std::bit_cast<float>(0x7f800001U);
  CHECK(float32_to_float16(low_payload) == 0x7e00);
  CHECK(float32_to_bfloat16(low_payload) == 0x7fc0);
  const auto all_ones = std::bit_cast<float>(0xffffffffU);
  CHECK(float32_to_float16(all_ones) == 0xffff);
  CHECK(float32_to_bfloat16(all_ones) == 0xffff);
}

static_assert(float32_to_float16(1.0F) == 0x3c00 && float16_to_float32(0x0001) == 0x1p-24F);
static_assert(float32_to_bfloat16(1.0F) == 0x3f80 && bfloat16_to_float32(0xc000) == -2.0F);

}  // namespace
