// Exponentials over vectors.
#ifndef MOORING_KERNELS_CPU_MATH_INL_H_
#define MOORING_KERNELS_CPU_MATH_INL_H_

namespace mooring::MOORING_ISA {
namespace {  // NOLINT(google-build-namespaces): a copy per instruction set

constexpr float kInfinity = __builtin_inff();

// e^x within 2e-7 of it, relatively, for x in [-87.3, 88.3]; above, e^88.3; below (and for -inf),
// zero.
//
// x = n ln 2 + r with |r| <= ln 2 / 2; the polynomial is Cephes' expf (Moshier). ln 2 is split in
// two so that n times the first part is exact.
[[gnu::always_inline]] inline Vec::F Exp(Vec::F x) {
  const Vec::F lowest = Vec::Set(-87.3F);
  const Vec::F kept = Vec::Max(lowest, Vec::Min(Vec::Set(88.3F), x));
  const Vec::F n = Vec::Round(Vec::Mul(kept, Vec::Set(1.44269504088896341F)));
  Vec::F r = Vec::Fnma(n, Vec::Set(0.693359375F), kept);
  r = Vec::Fnma(n, Vec::Set(-2.12194440e-4F), r);
  Vec::F p = Vec::Set(1.9875691500e-4F);
  p = Vec::Fma(p, r, Vec::Set(1.3981999507e-3F));
  p = Vec::Fma(p, r, Vec::Set(8.3334519073e-3F));
  p = Vec::Fma(p, r, Vec::Set(4.1665795894e-2F));
  p = Vec::Fma(p, r, Vec::Set(1.6666665459e-1F));
  p = Vec::Fma(p, r, Vec::Set(5.0000001201e-1F));
  p = Vec::Add(Vec::Fma(p, Vec::Mul(r, r), r), Vec::Set(1.0F));
  const Vec::F result = Vec::Mul(p, Vec::PowerOfTwo(n));
  return Vec::Select(Vec::Below(x, lowest), Vec::Zero(), result);  // NaN stays NaN
}

// The same for one number, with the same result as any lane.
[[gnu::always_inline]] inline float ExpScalar(float x) {
  alignas(64) float lanes[Vec::kLanes];
  Vec::Store(lanes, Exp(Vec::Set(x)));
  return lanes[0];
}

}  // namespace
}  // namespace mooring::MOORING_ISA

#endif  // MOORING_KERNELS_CPU_MATH_INL_H_
