// SPDX-License-Identifier: Apache-2.0
#include "lib/reduce.h"

#if defined(__x86_64__)
#include <cpuid.h>
#endif

#include <algorithm>
#include <array>
#include <cstring>
#include <vector>

#include "lib/check.h"
#include "lib/reduce_kernels.h"

namespace rondel {
namespace {

const ReduceKernels& best_kernels() {
  static const ReduceKernels& kBest = *usable_reduce_kernels().back();
  return kBest;
}

constexpr std::size_t index_of(DataType type) { return static_cast<std::size_t>(type); }
constexpr std::size_t index_of(ReduceOp op) { return static_cast<std::size_t>(op); }

// An integer average sums and divides block by block, so that the second pass finds its block in the L1
// cache.
void average_integers(DataType type, std::span<void* const> destinations,
                      std::span<const void* const> sources, std::size_t elements) {
  const auto sum = best_kernels().fold_many[index_of(type)][index_of(ReduceOp::sum)];
  const std::size_t block = 8192 / size_of(type);
  std::vector<const void*> shifted(sources.begin(), sources.end());
  for (std::size_t done = 0; done < elements; done += block) {
    const std::size_t size = std::min(block, elements - done);
    const std::size_t offset = done * size_of(type);
    for (std::size_t s = 0; s < sources.size(); ++s)
      shifted[s] = static_cast<const std::byte*>(sources[s]) + offset;
    void* const first = static_cast<std::byte*>(destinations[0]) + offset;
    sum(&first, 1, shifted.data(), shifted.size(), size);
    divide(type, first, size, sources.size());
    for (void* const other : destinations.subspan(1))
      std::memcpy(static_cast<std::byte*>(other) + offset, first, size * size_of(type));
  }
}

#if defined(__x86_64__)
bool has_f16c() {
  unsigned a = 0, b = 0, c = 0, d = 0;
  return __get_cpuid(1, &a, &b, &c, &d) != 0 && (c & bit_F16C) != 0;
}

// __builtin_cpu_supports also asks whether the system saves the wide registers.
std::vector<const ReduceKernels*> probe_kernels() {
  std::vector<const ReduceKernels*> usable{&scalar_reduce_kernels()};
  if (!__builtin_cpu_supports("avx2") || !has_f16c()) return usable;
  usable.push_back(&avx2_reduce_kernels());
  if (__builtin_cpu_supports("avx512f") && __builtin_cpu_supports("avx512bw") &&
      __builtin_cpu_supports("avx512dq") && __builtin_cpu_supports("avx512vl"))
    usable.push_back(&avx512_reduce_kernels());
  return usable;
}
#else
std::vector<const ReduceKernels*> probe_kernels() { return {&scalar_reduce_kernels()}; }
#endif

}  // namespace

const std::vector<const ReduceKernels*>& usable_reduce_kernels() {
  static const std::vector<const ReduceKernels*> kUsable = probe_kernels();
  return kUsable;
}

void fold(DataType type, ReduceOp op, void* destination, const void* first, const void* second,
          std::size_t elements, float second_share) {
  check(supports(type, op), "fold: the type supports the operator");
  if (elements == 0) return;
  best_kernels().fold[index_of(type)][index_of(op)](destination, first, second, elements, second_share);
}

void fold_many(DataType type, ReduceOp op, void* destination, std::span<const void* const> sources,
               std::size_t elements) {
  fold_many(type, op, std::span<void* const>(&destination, 1), sources, elements);
}

void fold_many(DataType type, ReduceOp op, std::span<void* const> destinations,
               std::span<const void* const> sources, std::size_t elements) {
  check(supports(type, op), "fold_many: the type supports the operator");
  check(!sources.empty() && !destinations.empty(), "fold_many: at least one source and one destination");
  if (elements == 0) return;
  if (op == ReduceOp::average && !is_floating(type))
    return average_integers(type, destinations, sources, elements);
  best_kernels().fold_many[index_of(type)][index_of(op)](destinations.data(), destinations.size(),
                                                         sources.data(), sources.size(), elements);
}

void divide(DataType type, void* data, std::size_t elements, std::uint64_t divisor) {
  check(divisor != 0, "divide: the divisor is not zero");
  check(type != DataType::boolean, "divide: a boolean has no quotient");
  if (elements == 0) return;
  const auto fast = best_kernels().divide[index_of(type)];
  (fast != nullptr ? fast : scalar_reduce_kernels().divide[index_of(type)])(data, elements, divisor);
}

void scale(DataType type, void* data, std::size_t elements, double factor) {
  check(is_floating(type), "scale: the type is a float");
  if (elements == 0) return;
  best_kernels().scale[index_of(type)](data, elements, factor);
}

std::string_view reduce_instruction_set() { return best_kernels().name; }

}  // namespace rondel
