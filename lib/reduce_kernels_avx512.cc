// SPDX-License-Identifier: Apache-2.0
// The vector kernels for AVX-512 (F, BW, DQ, VL): registers of 64 bytes. The instructions that convert to
// bfloat16 are not used: they flush subnormals to zero.
#include <immintrin.h>

#include "lib/reduce_kernels_vector.h"

namespace rondel {
namespace {

struct Avx512 {
  static constexpr std::size_t kBytes = 64;

  // min(a, b) yields b for two zeros and for any NaN; both orders joined bitwise make -0.0 the least.
  [[gnu::always_inline]] static __m512 lesser(__m512 a, __m512 b) {
    const __m512 least = _mm512_or_ps(_mm512_min_ps(a, b), _mm512_min_ps(b, a));
    return _mm512_mask_mov_ps(least, _mm512_cmp_ps_mask(a, b, _CMP_UNORD_Q), nan_ps());
  }
  [[gnu::always_inline]] static __m512 greater(__m512 a, __m512 b) {
    const __m512 most = _mm512_and_ps(_mm512_max_ps(a, b), _mm512_max_ps(b, a));
    return _mm512_mask_mov_ps(most, _mm512_cmp_ps_mask(a, b, _CMP_UNORD_Q), nan_ps());
  }
  [[gnu::always_inline]] static __m512d lesser(__m512d a, __m512d b) {
    const __m512d least = _mm512_or_pd(_mm512_min_pd(a, b), _mm512_min_pd(b, a));
    return _mm512_mask_mov_pd(least, _mm512_cmp_pd_mask(a, b, _CMP_UNORD_Q), nan_pd());
  }
  [[gnu::always_inline]] static __m512d greater(__m512d a, __m512d b) {
    const __m512d most = _mm512_and_pd(_mm512_max_pd(a, b), _mm512_max_pd(b, a));
    return _mm512_mask_mov_pd(most, _mm512_cmp_pd_mask(a, b, _CMP_UNORD_Q), nan_pd());
  }

  [[gnu::always_inline]] static unsigned unordered(__m512 a, __m512 b) {
    return _mm512_cmp_ps_mask(a, b, _CMP_UNORD_Q);
  }
  [[gnu::always_inline]] static unsigned unordered(__m512d a, __m512d b) {
    return _mm512_cmp_pd_mask(a, b, _CMP_UNORD_Q);
  }
  [[gnu::always_inline]] static bool any(unsigned mask) { return mask != 0; }
  [[gnu::always_inline]] static __m512 canonical(__m512 value) {
    return _mm512_mask_mov_ps(value, _mm512_cmp_ps_mask(value, value, _CMP_UNORD_Q), nan_ps());
  }
  [[gnu::always_inline]] static __m512d canonical(__m512d value) {
    return _mm512_mask_mov_pd(value, _mm512_cmp_pd_mask(value, value, _CMP_UNORD_Q), nan_pd());
  }
  [[gnu::always_inline]] static __m512 nan_ps() { return _mm512_set1_ps(__builtin_nanf("")); }
  [[gnu::always_inline]] static __m512d nan_pd() { return _mm512_set1_pd(__builtin_nan("")); }

  [[gnu::always_inline]] static __m512 load_float16(const std::byte* data) {
    return _mm512_cvtph_ps(_mm256_loadu_si256(reinterpret_cast<const __m256i*>(data)));
  }
  [[gnu::always_inline]] static void store_float16(std::byte* data, __m512 value) {
    _mm256_storeu_si256(reinterpret_cast<__m256i*>(data), _mm512_cvtps_ph(value, _MM_FROUND_TO_NEAREST_INT));
  }

  [[gnu::always_inline]] static __mmask64 first(std::size_t bytes) { return (__mmask64{1} << bytes) - 1; }
  [[gnu::always_inline]] static void copy_in(std::byte* stage, const std::byte* data, std::size_t bytes) {
    _mm512_store_si512(stage, _mm512_maskz_loadu_epi8(first(bytes), data));
  }
  [[gnu::always_inline]] static void copy_out(std::byte* data, const std::byte* stage, std::size_t bytes) {
    _mm512_mask_storeu_epi8(data, first(bytes), _mm512_load_si512(stage));
  }
};

constexpr ReduceKernels kTable = make_reduce_kernels<vector_kernels::VectorSet<Avx512>>("avx512");

}  // namespace

const ReduceKernels& avx512_reduce_kernels() { return kTable; }

}  // namespace rondel
