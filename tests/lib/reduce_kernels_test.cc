// SPDX-License-Identifier: Apache-2.0
// Every instruction set of this machine against a naive reference, bit for bit: all types and operators, all
// lengths around the register widths, odd addresses, every allowed overlap.
#include "lib/reduce_kernels.h"

#include <algorithm>
#include <bit>
#include <catch2/catch.hpp>
#include <cmath>
#include <cstring>
#include <limits>
#include <numeric>
#include <random>
#include <string>
#include <vector>

#include "lib/half.h"
#include "lib/memory.h"

namespace {

using namespace std::string_literals;
using rondel::Bytes;
using rondel::DataType;
using rondel::ReduceKernels;
using rondel::ReduceOp;
using Sizes = std::initializer_list<std::size_t>;

constexpr unsigned kSeed = 20240607;
constexpr std::size_t kMargin = 64;  // untouched bytes on both sides of a buffer

// ---- reference: one element at a time, integers in 64 bits, floats in their computing type ----

template <class T>
T read(const std::byte* from) {
  T value;
  std::memcpy(&value, from, sizeof value);
  return value;
}

template <class T>
void write(std::byte* to, T value) {
  std::memcpy(to, &value, sizeof value);
}

std::int64_t read_integer(DataType type, const std::byte* from) {
  switch (type) {
    case DataType::int8:
      return read<std::int8_t>(from);
    case DataType::uint8:
      return read<std::uint8_t>(from);
    case DataType::int16:
      return read<std::int16_t>(from);
    case DataType::int32:
      return read<std::int32_t>(from);
    case DataType::boolean:
      return read<std::uint8_t>(from) != 0 ? 1 : 0;
    default:
      return read<std::int64_t>(from);
  }
}

void write_integer(DataType type, std::byte* to, std::int64_t value) {
  std::memcpy(to, &value, rondel::size_of(type));  // little endian: the low bytes come first
}

double read_float(DataType type, const std::byte* from) {
  switch (type) {
    case DataType::float16:
      return rondel::float16_to_float32(read<std::uint16_t>(from));
    case DataType::bfloat16:
      return rondel::bfloat16_to_float32(read<std::uint16_t>(from));
    case DataType::float32:
      return read<float>(from);
    default:
      return read<double>(from);
  }
}

void write_float(DataType type, std::byte* to, double value) {
  const bool nan = std::isnan(value);
  const auto narrow = static_cast<float>(value);
  switch (type) {
    case DataType::float16:
      write<std::uint16_t>(to, nan ? 0x7e00 : rondel::float32_to_float16(narrow));
      break;
    case DataType::bfloat16:
      write<std::uint16_t>(to, nan ? 0x7fc0 : rondel::float32_to_bfloat16(narrow));
      break;
    case DataType::float32:
      write<std::uint32_t>(to, nan ? 0x7fc00000U : std::bit_cast<std::uint32_t>(narrow));
      break;
    default:
      write<std::uint64_t>(to, nan ? 0x7ff8000000000000U : std::bit_cast<std::uint64_t>(value));
      break;
  }
}

template <class T>
T extreme(T a, T b, bool least) {
  if (std::isnan(a) || std::isnan(b)) return std::numeric_limits<T>::quiet_NaN();
  if (a == b) return std::signbit(a) == least ? a : b;
  return (a < b) == least ? a : b;
}

template <class T>
T combine_floats(ReduceOp op, T a, T b) {
  if (op == ReduceOp::min || op == ReduceOp::max) return extreme(a, b, op == ReduceOp::min);
  return op == ReduceOp::product ? a * b : a + b;
}

std::int64_t combine_integers(ReduceOp op, std::int64_t a, std::int64_t b) {
  const auto x = static_cast<std::uint64_t>(a), y = static_cast<std::uint64_t>(b);
  switch (op) {
    case ReduceOp::min:
      return std::min(a, b);
    case ReduceOp::max:
      return std::max(a, b);
    case ReduceOp::product:
      return static_cast<std::int64_t>(x * y);
    case ReduceOp::bit_and:
      return a & b;
    case ReduceOp::bit_or:
      return a | b;
    case ReduceOp::bit_xor:
      return a ^ b;
    default:
      return static_cast<std::int64_t>(x + y);
  }
}

std::int64_t combine_booleans(ReduceOp op, std::int64_t a, std::int64_t b) {
  if (op == ReduceOp::bit_xor) return a ^ b;
  const bool both = op == ReduceOp::product || op == ReduceOp::min || op == ReduceOp::bit_and;
  return both ? (a & b) : (a | b);
}

// A float32 value that is kept in a double must be rounded after each operation.
double step(DataType type, ReduceOp op, double a, double b) {
  if (type == DataType::float64) return combine_floats(op, a, b);
  return combine_floats(op, static_cast<float>(a), static_cast<float>(b));
}

Bytes reference_many(DataType type, ReduceOp op, const std::vector<const std::byte*>& sources,
                     std::size_t elements) {
  const std::size_t size = rondel::size_of(type);
  // No sum under an average of bfloat16 may leave float32: all terms are smaller by a power of two.
  const double scale = op == ReduceOp::average && type == DataType::bfloat16 ? 0x1p-16 : 1.0;
  Bytes result(elements * size);
  for (std::size_t i = 0; i < elements; ++i) {
    if (rondel::is_floating(type)) {
      double sum = scale * read_float(type, sources[0] + i * size);
      for (std::size_t s = 1; s < sources.size(); ++s)
        sum = step(type, op, sum, scale * read_float(type, sources[s] + i * size));
      if (op == ReduceOp::average && type == DataType::float64) sum /= static_cast<double>(sources.size());
      if (op == ReduceOp::average && type != DataType::float64)
        sum = static_cast<float>(sum / scale / static_cast<double>(sources.size()));
      write_float(type, result.data() + i * size, sum);
    } else {
      std::int64_t sum = read_integer(type, sources[0] + i * size);
      for (std::size_t s = 1; s < sources.size(); ++s) {
        const std::int64_t next = read_integer(type, sources[s] + i * size);
        sum = type == DataType::boolean ? combine_booleans(op, sum, next) : combine_integers(op, sum, next);
      }
      write_integer(type, result.data() + i * size, sum);
    }
  }
  return result;
}

Bytes reference_fold(DataType type, ReduceOp op, const std::byte* a, const std::byte* b, std::size_t elements,
                     float share) {
  if (op != ReduceOp::average || !rondel::is_half(type))
    return reference_many(type, op == ReduceOp::average ? ReduceOp::sum : op, {a, b}, elements);
  const std::size_t size = rondel::size_of(type);
  Bytes result(elements * size);
  for (std::size_t i = 0; i < elements; ++i) {
    volatile float left =
        static_cast<float>(read_float(type, a + i * size)) * (1.0F - share);  // rounded: no fma
    volatile float right = static_cast<float>(read_float(type, b + i * size)) * share;
    write_float(type, result.data() + i * size, left + right);
  }
  return result;
}

// ---- data: random bit patterns, moderate numbers and every special value, in random places ----

std::vector<double> special_values(DataType type) {
  const double least = type == DataType::float16    ? 0x1p-24
                       : type == DataType::bfloat16 ? 0x1p-133
                       : type == DataType::float32  ? 0x1p-149
                                                    : 0x1p-1074;
  const double greatest = type == DataType::float16    ? 65504.0
                          : type == DataType::bfloat16 ? 0x1.FEp127
                          : type == DataType::float32  ? 0x1.FFFFFEp127
                                                       : std::numeric_limits<double>::max();
  const double infinity = std::numeric_limits<double>::infinity();
  return {0.0,  -0.0,     least,     -least,   least * 3, 1.0,
          -1.0, greatest, -greatest, infinity, -infinity, std::nan("")};
}

Bytes random_data(DataType type, std::size_t elements, std::mt19937_64& random) {
  const std::size_t size = rondel::size_of(type);
  Bytes data(elements * size);
  const std::vector<double> specials = special_values(type);
  for (std::size_t i = 0; i < elements; ++i) {
    std::byte* element = data.data() + i * size;
    const std::uint64_t bits = random();
    std::memcpy(element, &bits, size);  // any pattern: NaNs with payloads, quiet or not, of both signs
    if (type == DataType::boolean && bits % 3 == 0) write<std::uint8_t>(element, 0);
    if (!rondel::is_floating(type)) continue;
    const std::uint64_t kind = random() % 16;
    if (kind < 4) write_float(type, element, specials[random() % specials.size()]);
    if (kind > 8)
      write_float(type, element, static_cast<double>(static_cast<std::int64_t>(bits) >> 48) / 37.0);
  }
  return data;
}

// A buffer at an odd address whose surroundings are watched.
class Guarded {
 public:
  Guarded(const Bytes& content, std::size_t shift) : shift_(kMargin + shift), bytes_(content.size()) {
    storage_.assign(bytes_ + 2 * kMargin + shift + 1, std::byte{0xA5});
    std::copy(content.begin(), content.end(), storage_.begin() + static_cast<std::ptrdiff_t>(shift_));
  }
  std::byte* data() { return storage_.data() + shift_; }
  bool holds(const Bytes& content) const {
    return std::equal(content.begin(), content.end(), storage_.data() + shift_);
  }
  bool surroundings_intact() const {
    const auto intact = [](std::byte byte) { return byte == std::byte{0xA5}; };
    const auto begin = storage_.begin() + static_cast<std::ptrdiff_t>(shift_);
    return std::all_of(storage_.begin(), begin, intact) &&
           std::all_of(begin + static_cast<std::ptrdiff_t>(bytes_), storage_.end(), intact);
  }

 private:
  std::size_t shift_, bytes_;
  Bytes storage_;
};

std::string describe(const ReduceKernels& kernels, DataType type, ReduceOp op, std::size_t elements) {
  return std::string(kernels.name) + " " + std::string(name_of(type)) + " " + std::string(name_of(op)) +
         " of " + std::to_string(elements) + " elements, seed " + std::to_string(kSeed);
}

std::vector<std::size_t> lengths() {
  std::vector<std::size_t> all;
  for (std::size_t n = 0; n <= 130; ++n) all.push_back(n);
  for (std::size_t n : Sizes{191, 192, 255, 256, 257, 258, 511, 512, 513, 1023, 4099}) all.push_back(n);
  return all;
}

template <class Body>
void for_each_pair(Body body) {
  for (std::size_t t = 0; t < rondel::kDataTypeCount; ++t)
    for (std::size_t o = 0; o < rondel::kReduceOpCount; ++o)
      if (supports(static_cast<DataType>(t), static_cast<ReduceOp>(o)))
        body(static_cast<DataType>(t), static_cast<ReduceOp>(o));
}

auto fold_of(const ReduceKernels& kernels, DataType type, ReduceOp op) {
  return kernels.fold[static_cast<std::size_t>(type)][static_cast<std::size_t>(op)];
}
auto fold_many_of(const ReduceKernels& kernels, DataType type, ReduceOp op) {
  return kernels.fold_many[static_cast<std::size_t>(type)][static_cast<std::size_t>(op)];
}

void check_fold(const ReduceKernels& kernels, DataType type, ReduceOp op, std::size_t elements,
                const Bytes& a, const Bytes& b, std::size_t shift) {
  const float share = 1.0F / 3.0F;
  const Bytes expected = reference_fold(type, op, a.data(), b.data(), elements, share);
  const auto fold = fold_of(kernels, type, op);
  Guarded first(a, shift), second(b, shift + 1), apart(Bytes(a.size()), shift + 2);
  fold(apart.data(), first.data(), second.data(), elements, share);
  bool right = apart.holds(expected) && apart.surroundings_intact() && first.holds(a) && second.holds(b);
  fold(first.data(), first.data(), second.data(), elements, share);
  right = right && first.holds(expected) && first.surroundings_intact() && second.holds(b);
  Guarded again(a, shift);
  fold(second.data(), again.data(), second.data(), elements, share);
  right = right && second.holds(expected) && second.surroundings_intact() && again.holds(a);
  if (!right) FAIL_CHECK("fold: " << describe(kernels, type, op, elements) << ", shift " << shift);
}

TEST_CASE("reduce kernels: fold equals the reference on every instruction set") {
  for (const ReduceKernels* kernels : rondel::usable_reduce_kernels()) {
    std::mt19937_64 random(kSeed);
    for_each_pair([&](DataType type, ReduceOp op) {
      for (const std::size_t elements : lengths()) {
        const Bytes a = random_data(type, elements, random), b = random_data(type, elements, random);
        check_fold(*kernels, type, op, elements, a, b, elements % 8);
      }
    });
  }
  CHECK(rondel::usable_reduce_kernels().front()->name == "scalar"s);
  if (rondel::usable_reduce_kernels().size() < 3) WARN("this machine can not test every instruction set");
}

TEST_CASE("reduce kernels: the order of the two operands does not change a bit") {
  std::mt19937_64 random(kSeed);
  for (const ReduceKernels* kernels : rondel::usable_reduce_kernels())
    for_each_pair([&](DataType type, ReduceOp op) {
      const Bytes a = random_data(type, 1000, random), b = random_data(type, 1000, random);
      Bytes ab(a.size()), ba(a.size());
      fold_of(*kernels, type, op)(ab.data(), a.data(), b.data(), 1000, 0.5F);
      fold_of(*kernels, type, op)(ba.data(), b.data(), a.data(), 1000, 0.5F);
      if (ab != ba) FAIL_CHECK(describe(*kernels, type, op, 1000));
    });
}

// `targets`: which buffers are destinations; those after the sources are nothing else.
void check_fold_many(const ReduceKernels& kernels, DataType type, ReduceOp op, std::size_t elements,
                     const std::vector<Bytes>& inputs, const std::vector<std::size_t>& targets) {
  std::vector<const std::byte*> plain;
  std::vector<Guarded> buffers;
  for (const Bytes& input : inputs) {
    plain.push_back(input.data());
    buffers.emplace_back(input, buffers.size() % 5);
  }
  const Bytes expected = reference_many(type, op, plain, elements);
  for (const std::size_t offset : {3U, 1U}) buffers.emplace_back(Bytes(expected.size()), offset);
  std::vector<const void*> sources;
  for (std::size_t s = 0; s < inputs.size(); ++s) sources.push_back(buffers[s].data());
  std::vector<void*> destinations;
  for (const std::size_t target : targets) destinations.push_back(buffers[target].data());
  fold_many_of(kernels, type, op)(destinations.data(), destinations.size(), sources.data(), sources.size(),
                                  elements);
  bool right = true;
  for (std::size_t b = 0; b < buffers.size(); ++b) {
    const bool written = std::find(targets.begin(), targets.end(), b) != targets.end();
    right = right && buffers[b].surroundings_intact();
    if (written) right = right && buffers[b].holds(expected);
    if (!written && b < inputs.size()) right = right && buffers[b].holds(inputs[b]);
  }
  if (!right)
    FAIL_CHECK("fold_many: " << describe(kernels, type, op, elements) << ", " << inputs.size() << " sources, "
                             << targets.size() << " destinations, the first is buffer " << targets[0]);
}

// One to four of `buffers` in any order.
std::vector<std::size_t> some_of(std::size_t buffers, std::mt19937_64& random) {
  std::vector<std::size_t> all(buffers);
  std::iota(all.begin(), all.end(), 0);
  std::shuffle(all.begin(), all.end(), random);
  all.resize(std::min<std::size_t>(buffers, 1 + random() % 4));
  return all;
}

TEST_CASE("reduce kernels: fold_many equals the reference on every instruction set") {
  for (const ReduceKernels* kernels : rondel::usable_reduce_kernels()) {
    std::mt19937_64 random(kSeed + 1);
    for_each_pair([&](DataType type, ReduceOp op) {
      if (op == ReduceOp::average && !rondel::is_floating(type)) return;
      for (const std::size_t count : Sizes{1, 2, 3, 4, 7, 8, 9, 17}) {
        for (const std::size_t elements : Sizes{0, 1, 3, 15, 16, 17, 31, 33, 64, 127, 130, 257, 259, 515}) {
          std::vector<Bytes> inputs;
          for (std::size_t s = 0; s < count; ++s) inputs.push_back(random_data(type, elements, random));
          check_fold_many(*kernels, type, op, elements, inputs, some_of(count + 2, random));
        }
      }
    });
  }
}

// ---- divide and scale ----

Bytes reference_map(DataType type, const Bytes& data, double factor, std::uint64_t divisor) {
  const std::size_t size = rondel::size_of(type);
  Bytes result(data.size());
  for (std::size_t at = 0; at < data.size(); at += size) {
    const double value = read_float(type, data.data() + at);
    const auto narrow = static_cast<float>(value);
    double mapped = divisor == 0 ? value * factor : value / static_cast<double>(divisor);
    if (type != DataType::float64)
      mapped = divisor == 0 ? narrow * static_cast<float>(factor) : narrow / static_cast<float>(divisor);
    write_float(type, result.data() + at, mapped);
  }
  return result;
}

void check_map(const ReduceKernels& kernels, DataType type, const Bytes& input, double factor,
               std::uint64_t divisor) {
  const std::size_t elements = input.size() / rondel::size_of(type);
  Guarded data(input, elements % 7);
  const auto index = static_cast<std::size_t>(type);
  if (divisor == 0)
    kernels.scale[index](data.data(), elements, factor);
  else
    kernels.divide[index](data.data(), elements, divisor);
  if (!data.holds(reference_map(type, input, factor, divisor)) || !data.surroundings_intact())
    FAIL_CHECK(describe(kernels, type, ReduceOp::average, elements)
               << ", factor " << factor << " or divisor " << divisor);
}

TEST_CASE("reduce kernels: divide and scale of floats equal the reference on every instruction set") {
  for (const ReduceKernels* kernels : rondel::usable_reduce_kernels()) {
    std::mt19937_64 random(kSeed + 2);
    for (const DataType type :
         {DataType::float16, DataType::bfloat16, DataType::float32, DataType::float64}) {
      for (const std::size_t elements : Sizes{1, 2, 15, 16, 17, 33, 63, 64, 65, 127, 129, 130, 259, 1027}) {
        const Bytes input = random_data(type, elements, random);
        for (const std::uint64_t divisor :
             {1ULL, 2ULL, 3ULL, 7ULL, 10ULL, 1ULL << 40, 16777217ULL, 1ULL << 63, ~0ULL})
          check_map(*kernels, type, input, 0, divisor);
        for (const double factor : {0.0, -0.0, 1.0, -0.1, 0.125, 1e300, 1e-300, 3.0})
          check_map(*kernels, type, input, factor, 0);
      }
    }
  }
}

}  // namespace
