// The vector type of the bodies in this folder, for AVX2: 8 floats, 32 bytes.
//
// Every function is one idea and always inlined. vec_avx512-inl.h has the same names; a difference
// between the two that is not the width is a fault.
#ifndef MOORING_KERNELS_CPU_VEC_AVX2_INL_H_
#define MOORING_KERNELS_CPU_VEC_AVX2_INL_H_

#include <immintrin.h>

#include "kernels/kernels.h"

#define MOORING_OP [[gnu::always_inline]] static inline

namespace mooring::MOORING_ISA {
namespace {  // NOLINT(google-build-namespaces): a copy per instruction set

struct Vec {
  static constexpr int kLanes = 8;
  static constexpr int kRegisters = 16;
  using F = __m256;
  using Mask = __m256;

  // The first `count` lanes, 0 < count < kLanes, as all ones.
  MOORING_OP __m256i FirstLanes(int count) {
    return _mm256_cmpgt_epi32(_mm256_set1_epi32(count), _mm256_setr_epi32(0, 1, 2, 3, 4, 5, 6, 7));
  }

  MOORING_OP F Set(float x) { return _mm256_set1_ps(x); }
  MOORING_OP F Zero() { return _mm256_setzero_ps(); }
  // `x` in lane 0, zeros elsewhere.
  MOORING_OP F InLane0(float x) { return _mm256_zextps128_ps256(_mm_set_ss(x)); }
  MOORING_OP F SetHalf(uint16_t x) {
    return _mm256_cvtph_ps(_mm_set1_epi16(static_cast<int16_t>(x)));
  }
  MOORING_OP F Load(const float* p) { return _mm256_loadu_ps(p); }
  MOORING_OP void Store(float* p, F x) { _mm256_storeu_ps(p, x); }
  // Partial loads fill up with zeros; neither touches memory past `count`.
  MOORING_OP F Load(const float* p, int count) { return _mm256_maskload_ps(p, FirstLanes(count)); }
  MOORING_OP void Store(float* p, F x, int count) { _mm256_maskstore_ps(p, FirstLanes(count), x); }

  MOORING_OP F Add(F a, F b) { return _mm256_add_ps(a, b); }
  MOORING_OP F Sub(F a, F b) { return _mm256_sub_ps(a, b); }
  MOORING_OP F Mul(F a, F b) { return _mm256_mul_ps(a, b); }
  MOORING_OP F Div(F a, F b) { return _mm256_div_ps(a, b); }
  MOORING_OP F Fma(F a, F b, F c) { return _mm256_fmadd_ps(a, b, c); }    // a * b + c
  MOORING_OP F Fms(F a, F b, F c) { return _mm256_fmsub_ps(a, b, c); }    // a * b - c
  MOORING_OP F Fnma(F a, F b, F c) { return _mm256_fnmadd_ps(a, b, c); }  // c - a * b
  MOORING_OP F Abs(F x) { return _mm256_andnot_ps(_mm256_set1_ps(-0.0F), x); }
  // Where either is NaN, the result is b.
  MOORING_OP F Max(F a, F b) { return _mm256_max_ps(a, b); }
  MOORING_OP F Min(F a, F b) { return _mm256_min_ps(a, b); }
  // To whole numbers, ties to even.
  MOORING_OP F Round(F x) {
    return _mm256_round_ps(x, _MM_FROUND_TO_NEAREST_INT | _MM_FROUND_NO_EXC);
  }
  // 2^x for whole x in [-126, 127].
  MOORING_OP F PowerOfTwo(F x) {
    const __m256i exponent = _mm256_add_epi32(_mm256_cvtps_epi32(x), _mm256_set1_epi32(127));
    return _mm256_castsi256_ps(_mm256_slli_epi32(exponent, 23));
  }
  // Sum and largest of all lanes, halving the width each time.
  MOORING_OP float Sum(F x) {
    __m128 s = _mm_add_ps(_mm256_castps256_ps128(x), _mm256_extractf128_ps(x, 1));
    s = _mm_add_ps(s, _mm_movehl_ps(s, s));
    s = _mm_add_ss(s, _mm_movehdup_ps(s));
    return _mm_cvtss_f32(s);
  }
  MOORING_OP float Largest(F x) {
    __m128 s = _mm_max_ps(_mm256_castps256_ps128(x), _mm256_extractf128_ps(x, 1));
    s = _mm_max_ps(s, _mm_movehl_ps(s, s));
    s = _mm_max_ss(s, _mm_movehdup_ps(s));
    return _mm_cvtss_f32(s);
  }

  // Lane i is set when first <= i <= last.
  MOORING_OP Mask LaneRange(int first, int last) {
    const __m256i lane = _mm256_setr_epi32(0, 1, 2, 3, 4, 5, 6, 7);
    const __m256i below = _mm256_cmpgt_epi32(_mm256_set1_epi32(first), lane);
    const __m256i above = _mm256_cmpgt_epi32(lane, _mm256_set1_epi32(last));
    return _mm256_castsi256_ps(
        _mm256_andnot_si256(_mm256_or_si256(below, above), _mm256_set1_epi32(-1)));
  }
  MOORING_OP Mask Below(F a, F b) { return _mm256_cmp_ps(a, b, _CMP_LT_OQ); }
  MOORING_OP F Select(Mask mask, F yes, F no) { return _mm256_blendv_ps(no, yes, mask); }
  // Bit i is set when lane i is equal.
  MOORING_OP uint32_t EqualBits(F a, F b) {
    return static_cast<uint32_t>(_mm256_movemask_ps(_mm256_cmp_ps(a, b, _CMP_EQ_OQ)));
  }
  // Adds the lanes, as doubles, to `sum`.
  MOORING_OP double AddLanes(double sum, F x) {
    const __m256d pairs = _mm256_add_pd(_mm256_cvtps_pd(_mm256_castps256_ps128(x)),
                                        _mm256_cvtps_pd(_mm256_extractf128_ps(x, 1)));
    __m128d s = _mm_add_pd(_mm256_castpd256_pd128(pairs), _mm256_extractf128_pd(pairs, 1));
    s = _mm_add_sd(s, _mm_unpackhi_pd(s, s));
    return sum + _mm_cvtsd_f64(s);
  }

  // Halves and bfloat16: conversions round to nearest, ties to even.
  MOORING_OP F LoadHalf(const void* p) {
    return _mm256_cvtph_ps(_mm_loadu_si128(static_cast<const __m128i*>(p)));
  }
  MOORING_OP void StoreHalf(void* p, F x) {
    _mm_storeu_si128(static_cast<__m128i*>(p), _mm256_cvtps_ph(x, _MM_FROUND_TO_NEAREST_INT));
  }
  MOORING_OP F RoundHalf(F x) {
    return _mm256_cvtph_ps(_mm256_cvtps_ph(x, _MM_FROUND_TO_NEAREST_INT));
  }
  MOORING_OP F LoadBFloat(const void* p) {
    const __m256i wide = _mm256_cvtepu16_epi32(_mm_loadu_si128(static_cast<const __m128i*>(p)));
    return _mm256_castsi256_ps(_mm256_slli_epi32(wide, 16));
  }
  MOORING_OP F RoundBFloat(F x) {
    const __m256i bits = _mm256_castps_si256(x);
    const __m256i odd = _mm256_and_si256(_mm256_srli_epi32(bits, 16), _mm256_set1_epi32(1));
    const __m256i near = _mm256_add_epi32(bits, _mm256_add_epi32(odd, _mm256_set1_epi32(0x7FFF)));
    const __m256i quiet = _mm256_or_si256(bits, _mm256_set1_epi32(0x400000));
    const __m256 is_nan = _mm256_cmp_ps(x, x, _CMP_UNORD_Q);
    const __m256i top = _mm256_set1_epi32(static_cast<int>(0xFFFF0000U));
    const __m256 rounded =
        _mm256_blendv_ps(_mm256_castsi256_ps(near), _mm256_castsi256_ps(quiet), is_nan);
    return _mm256_and_ps(rounded, _mm256_castsi256_ps(top));
  }

  // kLanes small integers as floats, and back (to nearest, ties to even).
  MOORING_OP F LoadInt8(const void* p) {
    return _mm256_cvtepi32_ps(
        _mm256_cvtepi8_epi32(_mm_loadl_epi64(static_cast<const __m128i*>(p))));
  }
  MOORING_OP __m128i RoundToInt16(F x) {
    const __m256i wide = _mm256_cvtps_epi32(x);
    return _mm_packs_epi32(_mm256_castsi256_si128(wide), _mm256_extracti128_si256(wide, 1));
  }
  MOORING_OP void StoreIntegers(int8_t* p, F x) {
    const __m128i half = RoundToInt16(x);
    _mm_storel_epi64(reinterpret_cast<__m128i*>(p), _mm_packs_epi16(half, half));
  }
  MOORING_OP void StoreIntegers(int16_t* p, F x) {
    _mm_storeu_si128(reinterpret_cast<__m128i*>(p), RoundToInt16(x));
  }
  // The low and the high nibbles of kLanes bytes.
  MOORING_OP void LoadNibbles(const void* p, F* low, F* high) {
    const __m256i wide = _mm256_cvtepu8_epi32(_mm_loadl_epi64(static_cast<const __m128i*>(p)));
    *low = _mm256_cvtepi32_ps(_mm256_and_si256(wide, _mm256_set1_epi32(15)));
    *high = _mm256_cvtepi32_ps(_mm256_srli_epi32(wide, 4));
  }

  // Integer products of 32 items. Unsigned bytes times signed ones add up in pairs to 16 bits:
  // 2 * 128 * 127 = 32,512 at most, so nothing saturates.
  using Activations = __m256i;
  using Nibbles = __m256i;  // 0 .. 15
  struct Signed {           // -128 .. 127
    __m256i value;
    __m256i magnitude;
  };
  MOORING_OP Activations LoadActivations(const int8_t* p) {
    __m256i x = _mm256_loadu_si256(reinterpret_cast<const __m256i*>(p));
    // Else the compiler loads it again for every output, and loads are the bottleneck.
    asm("" : "+x"(x));
    return x;
  }
  MOORING_OP Nibbles UnpackNibbles(const void* p) {  // 16 low ones, then 16 high ones
    const __m256i twice =
        _mm256_broadcastsi128_si256(_mm_loadu_si128(static_cast<const __m128i*>(p)));
    const __m256i shifted = _mm256_srlv_epi32(twice, _mm256_setr_epi32(0, 0, 0, 0, 4, 4, 4, 4));
    return _mm256_and_si256(shifted, _mm256_set1_epi8(15));
  }
  MOORING_OP Signed FromBytes(__m256i bytes) { return {bytes, _mm256_abs_epi8(bytes)}; }
  MOORING_OP Signed UnpackCenteredNibbles(const void* p) {  // less 8
    return FromBytes(_mm256_sub_epi8(UnpackNibbles(p), _mm256_set1_epi8(8)));
  }
  MOORING_OP Signed LoadSigned(const void* p) {
    return FromBytes(_mm256_loadu_si256(static_cast<const __m256i*>(p)));
  }
  // The 32 products added up over groups of neighbours, one group per lane, exact.
  MOORING_OP F Products(Nibbles weights, Activations x) {
    const __m256i pairs = _mm256_maddubs_epi16(weights, x);
    return _mm256_cvtepi32_ps(_mm256_madd_epi16(pairs, _mm256_set1_epi16(1)));
  }
  MOORING_OP F Products(const Signed& weights, Activations x) {
    return Products(weights.magnitude, _mm256_sign_epi8(x, weights.value));
  }

  // The same with activations of 16 bits: 32 * 128 * 32,767 fits 32 bits.
  struct Wide {
    __m256i low;
    __m256i high;
  };
  MOORING_OP Wide LoadActivations(const int16_t* p) {
    const auto* halves = reinterpret_cast<const __m256i*>(p);
    return {_mm256_loadu_si256(halves), _mm256_loadu_si256(halves + 1)};
  }
  MOORING_OP Wide WidenBytes(__m256i bytes) {
    return {_mm256_cvtepi8_epi16(_mm256_castsi256_si128(bytes)),
            _mm256_cvtepi8_epi16(_mm256_extracti128_si256(bytes, 1))};
  }
  MOORING_OP Wide Widen(Nibbles weights) { return WidenBytes(weights); }
  MOORING_OP Wide Widen(const Signed& weights) { return WidenBytes(weights.value); }
  MOORING_OP F Products(const Wide& weights, const Wide& x) {
    return _mm256_cvtepi32_ps(_mm256_add_epi32(_mm256_madd_epi16(weights.low, x.low),
                                               _mm256_madd_epi16(weights.high, x.high)));
  }
};

}  // namespace
}  // namespace mooring::MOORING_ISA

#endif  // MOORING_KERNELS_CPU_VEC_AVX2_INL_H_
