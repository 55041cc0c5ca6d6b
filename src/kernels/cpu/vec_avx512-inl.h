// The vector type of the bodies in this folder, for AVX-512 (F, BW, DQ, VL): 16 floats. Quantised
// blocks of 32 items are widened to 16 bits, so one block fills one register and needs no trick for
// the sign. vec_avx2-inl.h has the same names and says what each does.
#ifndef MOORING_KERNELS_CPU_VEC_AVX512_INL_H_
#define MOORING_KERNELS_CPU_VEC_AVX512_INL_H_

#include <immintrin.h>

#include "kernels/kernels.h"

#define MOORING_OP [[gnu::always_inline]] static inline

namespace mooring::MOORING_ISA {
namespace {  // NOLINT(google-build-namespaces): a copy per instruction set

struct Vec {
  static constexpr int kLanes = 16;
  static constexpr int kRegisters = 32;
  using F = __m512;
  using Mask = __mmask16;

  MOORING_OP Mask FirstLanes(int count) { return static_cast<Mask>((1U << count) - 1U); }

  MOORING_OP F Set(float x) { return _mm512_set1_ps(x); }
  MOORING_OP F Zero() { return _mm512_setzero_ps(); }
  MOORING_OP F InLane0(float x) { return _mm512_zextps128_ps512(_mm_set_ss(x)); }
  MOORING_OP F SetHalf(uint16_t x) {
    return _mm512_cvtph_ps(_mm256_set1_epi16(static_cast<int16_t>(x)));
  }
  MOORING_OP F Load(const float* p) { return _mm512_loadu_ps(p); }
  MOORING_OP void Store(float* p, F x) { _mm512_storeu_ps(p, x); }
  MOORING_OP F Load(const float* p, int count) {
    return _mm512_maskz_loadu_ps(FirstLanes(count), p);
  }
  MOORING_OP void Store(float* p, F x, int count) {
    _mm512_mask_storeu_ps(p, FirstLanes(count), x);
  }

  MOORING_OP F Add(F a, F b) { return _mm512_add_ps(a, b); }
  MOORING_OP F Sub(F a, F b) { return _mm512_sub_ps(a, b); }
  MOORING_OP F Mul(F a, F b) { return _mm512_mul_ps(a, b); }
  MOORING_OP F Div(F a, F b) { return _mm512_div_ps(a, b); }
  MOORING_OP F Fma(F a, F b, F c) { return _mm512_fmadd_ps(a, b, c); }
  MOORING_OP F Fms(F a, F b, F c) { return _mm512_fmsub_ps(a, b, c); }
  MOORING_OP F Fnma(F a, F b, F c) { return _mm512_fnmadd_ps(a, b, c); }
  MOORING_OP F Abs(F x) { return _mm512_andnot_ps(_mm512_set1_ps(-0.0F), x); }
  MOORING_OP F Max(F a, F b) { return _mm512_max_ps(a, b); }
  MOORING_OP F Min(F a, F b) { return _mm512_min_ps(a, b); }
  MOORING_OP F Round(F x) {
    return _mm512_roundscale_ps(x, _MM_FROUND_TO_NEAREST_INT | _MM_FROUND_NO_EXC);
  }
  MOORING_OP F PowerOfTwo(F x) {
    const __m512i exponent = _mm512_add_epi32(_mm512_cvtps_epi32(x), _mm512_set1_epi32(127));
    return _mm512_castsi512_ps(_mm512_slli_epi32(exponent, 23));
  }
  MOORING_OP __m256 LowHalf(F x) { return _mm512_castps512_ps256(x); }
  MOORING_OP __m256 HighHalf(F x) { return _mm512_extractf32x8_ps(x, 1); }
  MOORING_OP float Sum(F x) {
    const __m256 half = _mm256_add_ps(LowHalf(x), HighHalf(x));
    __m128 s = _mm_add_ps(_mm256_castps256_ps128(half), _mm256_extractf128_ps(half, 1));
    s = _mm_add_ps(s, _mm_movehl_ps(s, s));
    s = _mm_add_ss(s, _mm_movehdup_ps(s));
    return _mm_cvtss_f32(s);
  }
  MOORING_OP float Largest(F x) {
    const __m256 half = _mm256_max_ps(LowHalf(x), HighHalf(x));
    __m128 s = _mm_max_ps(_mm256_castps256_ps128(half), _mm256_extractf128_ps(half, 1));
    s = _mm_max_ps(s, _mm_movehl_ps(s, s));
    s = _mm_max_ss(s, _mm_movehdup_ps(s));
    return _mm_cvtss_f32(s);
  }

  MOORING_OP Mask LaneRange(int first, int last) {
    const __m512i lane = _mm512_setr_epi32(0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15);
    return static_cast<Mask>(_mm512_cmpge_epi32_mask(lane, _mm512_set1_epi32(first)) &
                             _mm512_cmple_epi32_mask(lane, _mm512_set1_epi32(last)));
  }
  MOORING_OP Mask Below(F a, F b) { return _mm512_cmp_ps_mask(a, b, _CMP_LT_OQ); }
  MOORING_OP F Select(Mask mask, F yes, F no) { return _mm512_mask_blend_ps(mask, no, yes); }
  MOORING_OP uint32_t EqualBits(F a, F b) { return _mm512_cmp_ps_mask(a, b, _CMP_EQ_OQ); }
  MOORING_OP double AddLanes(double sum, F x) {
    const __m512d pairs = _mm512_add_pd(_mm512_cvtps_pd(LowHalf(x)), _mm512_cvtps_pd(HighHalf(x)));
    const __m256d quads =
        _mm256_add_pd(_mm512_castpd512_pd256(pairs), _mm512_extractf64x4_pd(pairs, 1));
    __m128d s = _mm_add_pd(_mm256_castpd256_pd128(quads), _mm256_extractf128_pd(quads, 1));
    s = _mm_add_sd(s, _mm_unpackhi_pd(s, s));
    return sum + _mm_cvtsd_f64(s);
  }

  MOORING_OP F LoadHalf(const void* p) {
    return _mm512_cvtph_ps(_mm256_loadu_si256(static_cast<const __m256i*>(p)));
  }
  MOORING_OP void StoreHalf(void* p, F x) {
    _mm256_storeu_si256(static_cast<__m256i*>(p), _mm512_cvtps_ph(x, _MM_FROUND_TO_NEAREST_INT));
  }
  MOORING_OP F RoundHalf(F x) {
    return _mm512_cvtph_ps(_mm512_cvtps_ph(x, _MM_FROUND_TO_NEAREST_INT));
  }
  MOORING_OP F LoadBFloat(const void* p) {
    const __m512i wide = _mm512_cvtepu16_epi32(_mm256_loadu_si256(static_cast<const __m256i*>(p)));
    return _mm512_castsi512_ps(_mm512_slli_epi32(wide, 16));
  }
  MOORING_OP F RoundBFloat(F x) {
    const __m512i bits = _mm512_castps_si512(x);
    const __m512i odd = _mm512_and_si512(_mm512_srli_epi32(bits, 16), _mm512_set1_epi32(1));
    const __m512i near = _mm512_add_epi32(bits, _mm512_add_epi32(odd, _mm512_set1_epi32(0x7FFF)));
    const __m512i quiet = _mm512_or_si512(bits, _mm512_set1_epi32(0x400000));
    const Mask is_nan = _mm512_cmp_ps_mask(x, x, _CMP_UNORD_Q);
    const __m512i rounded = _mm512_mask_blend_epi32(is_nan, near, quiet);
    const __m512i top = _mm512_set1_epi32(static_cast<int>(0xFFFF0000U));
    return _mm512_castsi512_ps(_mm512_and_si512(rounded, top));
  }

  MOORING_OP F LoadInt8(const void* p) {
    return _mm512_cvtepi32_ps(
        _mm512_cvtepi8_epi32(_mm_loadu_si128(static_cast<const __m128i*>(p))));
  }
  MOORING_OP void StoreIntegers(int8_t* p, F x) {
    _mm_storeu_si128(reinterpret_cast<__m128i*>(p), _mm512_cvtsepi32_epi8(_mm512_cvtps_epi32(x)));
  }
  MOORING_OP void StoreIntegers(int16_t* p, F x) {
    _mm256_storeu_si256(reinterpret_cast<__m256i*>(p),
                        _mm512_cvtsepi32_epi16(_mm512_cvtps_epi32(x)));
  }
  MOORING_OP void LoadNibbles(const void* p, F* low, F* high) {
    const __m512i wide = _mm512_cvtepu8_epi32(_mm_loadu_si128(static_cast<const __m128i*>(p)));
    *low = _mm512_cvtepi32_ps(_mm512_and_si512(wide, _mm512_set1_epi32(15)));
    *high = _mm512_cvtepi32_ps(_mm512_srli_epi32(wide, 4));
  }

  using Activations = __m512i;  // 32 items of 16 bits
  struct Nibbles {
    __m512i value;
  };
  struct Signed {
    __m512i value;
  };
  MOORING_OP Activations LoadActivations(const int8_t* p) {
    return _mm512_cvtepi8_epi16(_mm256_loadu_si256(reinterpret_cast<const __m256i*>(p)));
  }
  MOORING_OP Activations LoadActivations(const int16_t* p) { return _mm512_loadu_si512(p); }
  MOORING_OP __m256i NibbleBytes(const void* p) {
    const __m256i twice =
        _mm256_broadcastsi128_si256(_mm_loadu_si128(static_cast<const __m128i*>(p)));
    const __m256i shifted = _mm256_srlv_epi32(twice, _mm256_setr_epi32(0, 0, 0, 0, 4, 4, 4, 4));
    return _mm256_and_si256(shifted, _mm256_set1_epi8(15));
  }
  MOORING_OP Nibbles UnpackNibbles(const void* p) { return {_mm512_cvtepi8_epi16(NibbleBytes(p))}; }
  MOORING_OP Signed UnpackCenteredNibbles(const void* p) {
    return {_mm512_cvtepi8_epi16(_mm256_sub_epi8(NibbleBytes(p), _mm256_set1_epi8(8)))};
  }
  MOORING_OP Signed LoadSigned(const void* p) {
    return {_mm512_cvtepi8_epi16(_mm256_loadu_si256(static_cast<const __m256i*>(p)))};
  }
  // Wide enough for activations of 16 bits as they are: 32 * 128 * 32,767 fits 32 bits.
  MOORING_OP Nibbles Widen(const Nibbles& weights) { return weights; }
  MOORING_OP Signed Widen(const Signed& weights) { return weights; }
  MOORING_OP F Products(const Nibbles& weights, Activations x) {
    return _mm512_cvtepi32_ps(_mm512_madd_epi16(weights.value, x));
  }
  MOORING_OP F Products(const Signed& weights, Activations x) {
    return _mm512_cvtepi32_ps(_mm512_madd_epi16(weights.value, x));
  }
};

}  // namespace
}  // namespace mooring::MOORING_ISA

#endif  // MOORING_KERNELS_CPU_VEC_AVX512_INL_H_
