// SPDX-License-Identifier: Apache-2.0
// The vector kernels for AVX2 with F16C: registers of 32 bytes.
#include <immintrin.h>

#include "lib/reduce_kernels_vector.h"

namespace rondel {
namespace {

struct Avx2 {
  static constexpr std::size_t kBytes = 32;

  // min(a, b) yields b for two zeros and for any NaN; both orders joined bitwise make -0.0 the least, and the
  // mask of the unordered compare is itself a NaN.
  [[gnu::always_inline]] static __m256 lesser(__m256 a, __m256 b) {
    const __m256 least = _mm256_or_ps(_mm256_min_ps(a, b), _mm256_min_ps(b, a));
    return _mm256_or_ps(least, _mm256_cmp_ps(a, b, _CMP_UNORD_Q));
  }
  [[gnu::always_inline]] static __m256 greater(__m256 a, __m256 b) {
    const __m256 most = _mm256_and_ps(_mm256_max_ps(a, b), _mm256_max_ps(b, a));
    return _mm256_or_ps(most, _mm256_cmp_ps(a, b, _CMP_UNORD_Q));
  }
  [[gnu::always_inline]] static __m256d lesser(__m256d a, __m256d b) {
    const __m256d least = _mm256_or_pd(_mm256_min_pd(a, b), _mm256_min_pd(b, a));
    return _mm256_or_pd(least, _mm256_cmp_pd(a, b, _CMP_UNORD_Q));
  }
  [[gnu::always_inline]] static __m256d greater(__m256d a, __m256d b) {
    const __m256d most = _mm256_and_pd(_mm256_max_pd(a, b), _mm256_max_pd(b, a));
    return _mm256_or_pd(most, _mm256_cmp_pd(a, b, _CMP_UNORD_Q));
  }

  [[gnu::always_inline]] static __m256i unordered(__m256 a, __m256 b) {
    return _mm256_castps_si256(_mm256_cmp_ps(a, b, _CMP_UNORD_Q));
  }
  [[gnu::always_inline]] static __m256i unordered(__m256d a, __m256d b) {
    return _mm256_castpd_si256(_mm256_cmp_pd(a, b, _CMP_UNORD_Q));
  }
  [[gnu::always_inline]] static bool any(__m256i mask) { return _mm256_testz_si256(mask, mask) == 0; }
  [[gnu::always_inline]] static __m256 canonical(__m256 value) {
    return _mm256_blendv_ps(value, _mm256_set1_ps(__builtin_nanf("")),
                            _mm256_cmp_ps(value, value, _CMP_UNORD_Q));
  }
  [[gnu::always_inline]] static __m256d canonical(__m256d value) {
    return _mm256_blendv_pd(value, _mm256_set1_pd(__builtin_nan("")),
                            _mm256_cmp_pd(value, value, _CMP_UNORD_Q));
  }

  [[gnu::always_inline]] static __m256 load_float16(const std::byte* data) {
    return _mm256_cvtph_ps(_mm_loadu_si128(reinterpret_cast<const __m128i*>(data)));
  }
  [[gnu::always_inline]] static void store_float16(std::byte* data, __m256 value) {
    _mm_storeu_si128(reinterpret_cast<__m128i*>(data), _mm256_cvtps_ph(value, _MM_FROUND_TO_NEAREST_INT));
  }

  [[gnu::always_inline]] static void copy_in(std::byte* stage, const std::byte* data, std::size_t bytes) {
    _mm256_store_si256(reinterpret_cast<__m256i*>(stage), _mm256_setzero_si256());
    __builtin_memcpy(stage, data, bytes);
  }
  [[gnu::always_inline]] static void copy_out(std::byte* data, const std::byte* stage, std::size_t bytes) {
    __builtin_memcpy(data, stage, bytes);
  }
};

constexpr ReduceKernels kTable = make_reduce_kernels<vector_kernels::VectorSet<Avx2>>("avx2");

}  // namespace

const ReduceKernels& avx2_reduce_kernels() { return kTable; }

}  // namespace rondel
