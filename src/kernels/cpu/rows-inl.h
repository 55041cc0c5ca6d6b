// Functions over one row of activations.
#ifndef MOORING_KERNELS_CPU_ROWS_INL_H_
#define MOORING_KERNELS_CPU_ROWS_INL_H_

#include "kernels/cpu/math-inl.h"
#include "kernels/kernels.h"

namespace mooring::MOORING_ISA {
namespace {  // NOLINT(google-build-namespaces): a copy per instruction set

[[gnu::always_inline]] inline int RestOf(int64_t count, int64_t i) {
  return static_cast<int>(count - i);
}

void RmsNorm(const float* x, const float* weight, float epsilon, int64_t count, float* out) {
  constexpr int kParts = 4;  // chains of additions, for their latency
  Vec::F part[kParts] = {Vec::Zero(), Vec::Zero(), Vec::Zero(), Vec::Zero()};
  int64_t i = 0;
  for (; i + kParts * Vec::kLanes <= count; i += kParts * Vec::kLanes) {
    for (int p = 0; p < kParts; ++p) {
      const Vec::F v = Vec::Load(x + i + p * Vec::kLanes);
      part[p] = Vec::Fma(v, v, part[p]);
    }
  }
  for (; i + Vec::kLanes <= count; i += Vec::kLanes) {
    const Vec::F v = Vec::Load(x + i);
    part[0] = Vec::Fma(v, v, part[0]);
  }
  if (i < count) {
    const Vec::F v = Vec::Load(x + i, RestOf(count, i));
    part[1] = Vec::Fma(v, v, part[1]);
  }
  const float square_sum =
      Vec::Sum(Vec::Add(Vec::Add(part[0], part[1]), Vec::Add(part[2], part[3])));
  const Vec::F inverse =
      Vec::Set(1.0F / __builtin_sqrtf(square_sum / static_cast<float>(count) + epsilon));
  for (i = 0; i + Vec::kLanes <= count; i += Vec::kLanes) {
    Vec::Store(out + i, Vec::Mul(Vec::Mul(Vec::Load(x + i), inverse), Vec::Load(weight + i)));
  }
  if (i < count) {
    const int rest = RestOf(count, i);
    Vec::Store(out + i,
               Vec::Mul(Vec::Mul(Vec::Load(x + i, rest), inverse), Vec::Load(weight + i, rest)),
               rest);
  }
}

void LayerNorm(const float* x, const float* weight, const float* bias, float epsilon, int64_t count,
               float* out) {
  // What lies behind the end must not count as far from the mean.
  const int64_t whole = count / Vec::kLanes * Vec::kLanes;
  const int rest = RestOf(count, whole);
  Vec::F sum = Vec::Zero();
  for (int64_t i = 0; i < whole; i += Vec::kLanes) sum = Vec::Add(sum, Vec::Load(x + i));
  if (rest > 0) sum = Vec::Add(sum, Vec::Load(x + whole, rest));
  const Vec::F mean = Vec::Set(Vec::Sum(sum) / static_cast<float>(count));
  Vec::F squares = Vec::Zero();
  for (int64_t i = 0; i < whole; i += Vec::kLanes) {
    const Vec::F v = Vec::Sub(Vec::Load(x + i), mean);
    squares = Vec::Fma(v, v, squares);
  }
  if (rest > 0) {
    const Vec::F v = Vec::Select(Vec::LaneRange(0, rest - 1),
                                 Vec::Sub(Vec::Load(x + whole, rest), mean), Vec::Zero());
    squares = Vec::Fma(v, v, squares);
  }
  const float variance = Vec::Sum(squares) / static_cast<float>(count);
  const Vec::F inverse = Vec::Set(1.0F / __builtin_sqrtf(variance + epsilon));
  for (int64_t i = 0; i < whole; i += Vec::kLanes) {
    const Vec::F v = Vec::Mul(Vec::Sub(Vec::Load(x + i), mean), inverse);
    Vec::Store(out + i, Vec::Fma(v, Vec::Load(weight + i), Vec::Load(bias + i)));
  }
  if (rest > 0) {
    const Vec::F v = Vec::Mul(Vec::Sub(Vec::Load(x + whole, rest), mean), inverse);
    Vec::Store(out + whole,
               Vec::Fma(v, Vec::Load(weight + whole, rest), Vec::Load(bias + whole, rest)), rest);
  }
}

void Add(const float* y, int64_t count, float* x) {
  int64_t i = 0;
  for (; i + Vec::kLanes <= count; i += Vec::kLanes) {
    Vec::Store(x + i, Vec::Add(Vec::Load(x + i), Vec::Load(y + i)));
  }
  if (i < count) {
    const int rest = RestOf(count, i);
    Vec::Store(x + i, Vec::Add(Vec::Load(x + i, rest), Vec::Load(y + i, rest)), rest);
  }
}

[[gnu::always_inline]] inline Vec::F SwiGluLanes(Vec::F gate, Vec::F up) {
  const Vec::F denominator = Vec::Add(Vec::Set(1.0F), Exp(Vec::Sub(Vec::Zero(), gate)));
  return Vec::Mul(Vec::Div(gate, denominator), up);
}

void SwiGlu(const float* gate, const float* up, int64_t count, float* out) {
  int64_t i = 0;
  for (; i + Vec::kLanes <= count; i += Vec::kLanes) {
    Vec::Store(out + i, SwiGluLanes(Vec::Load(gate + i), Vec::Load(up + i)));
  }
  if (i < count) {
    const int rest = RestOf(count, i);
    Vec::Store(out + i, SwiGluLanes(Vec::Load(gate + i, rest), Vec::Load(up + i, rest)), rest);
  }
}

// x times the normal distribution's integral up to x. With q the part beyond |x|, that is x - x q
// or x q. q = erfc(|x| / sqrt(2)) / 2 is within 8e-8 (Abramowitz and Stegun 7.1.26, halved).
[[gnu::always_inline]] inline Vec::F GeluLanes(Vec::F x) {
  const Vec::F z = Vec::Mul(Vec::Abs(x), Vec::Set(0.70710678118654752F));
  const Vec::F t = Vec::Div(Vec::Set(1.0F), Vec::Fma(z, Vec::Set(0.3275911F), Vec::Set(1.0F)));
  Vec::F p = Vec::Set(0.5F * 1.061405429F);
  p = Vec::Fma(p, t, Vec::Set(0.5F * -1.453152027F));
  p = Vec::Fma(p, t, Vec::Set(0.5F * 1.421413741F));
  p = Vec::Fma(p, t, Vec::Set(0.5F * -0.284496736F));
  p = Vec::Fma(p, t, Vec::Set(0.5F * 0.254829592F));
  const Vec::F q = Vec::Mul(Vec::Mul(p, t), Exp(Vec::Sub(Vec::Zero(), Vec::Mul(z, z))));
  const Vec::F beyond = Vec::Mul(x, q);
  return Vec::Select(Vec::Below(x, Vec::Zero()), beyond, Vec::Sub(x, beyond));
}

void Gelu(const float* x, int64_t count, float* out) {
  int64_t i = 0;
  for (; i + Vec::kLanes <= count; i += Vec::kLanes) {
    Vec::Store(out + i, GeluLanes(Vec::Load(x + i)));
  }
  if (i < count) {
    const int rest = RestOf(count, i);
    Vec::Store(out + i, GeluLanes(Vec::Load(x + i, rest)), rest);
  }
}

// The same bits as the reference: every step below is exact or rounds as it does.
template <typename Item>
void QuantizeRow(const float* x, int64_t count, QuantBlock<Item>* blocks) {
  constexpr float kMost = QuantBlock<Item>::kMost;
  for (int64_t b = 0; b < count / kBlockItems; ++b, x += kBlockItems) {
    Vec::F most = Vec::Zero();
    for (int i = 0; i < kBlockItems; i += Vec::kLanes) {
      most = Vec::Max(Vec::Abs(Vec::Load(x + i)), most);
    }
    float largest = Vec::Largest(most);
    if (largest < kQuantizeToZero) largest = 0.0F;
    const Vec::F inverse = Vec::Set(largest > 0.0F ? kMost / largest : 0.0F);
    Vec::F sum = Vec::Zero();  // of whole numbers: exact
    for (int i = 0; i < kBlockItems; i += Vec::kLanes) {
      const Vec::F item = Vec::Round(Vec::Mul(Vec::Load(x + i), inverse));
      Vec::StoreIntegers(blocks[b].quant + i, item);
      sum = Vec::Add(sum, item);
    }
    blocks[b].scale = largest / kMost;
    blocks[b].weighted_sum = blocks[b].scale * Vec::Sum(sum);
  }
}

void QuantizeInt8(const float* x, int64_t count, Int8Block* blocks) {
  QuantizeRow(x, count, blocks);
}
void QuantizeInt16(const float* x, int64_t count, Int16Block* blocks) {
  QuantizeRow(x, count, blocks);
}

template <Vec::F (*kRound)(Vec::F)>
void RoundItems(const float* x, int64_t count, float* out) {
  int64_t i = 0;
  for (; i + Vec::kLanes <= count; i += Vec::kLanes) {
    Vec::Store(out + i, kRound(Vec::Load(x + i)));
  }
  if (i < count) {
    const int rest = RestOf(count, i);
    Vec::Store(out + i, kRound(Vec::Load(x + i, rest)), rest);
  }
}

void RoundRow(DType dtype, const float* x, int64_t count, float* out) {
  if (dtype == DType::kF16) {
    RoundItems<&Vec::RoundHalf>(x, count, out);
  } else {
    RoundItems<&Vec::RoundBFloat>(x, count, out);
  }
}

}  // namespace
}  // namespace mooring::MOORING_ISA

#endif  // MOORING_KERNELS_CPU_ROWS_INL_H_
