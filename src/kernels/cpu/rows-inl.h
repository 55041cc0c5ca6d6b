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

// The same bits as the reference: every step below is exact or rounds as it does.
// Quantises 32 items and leaves in `x` what that rounded away.
[[gnu::always_inline]] inline void QuantizeBlock(Vec::F* x, QuantBlock* block) {
  constexpr int kVectors = kBlockItems / Vec::kLanes;
  Vec::F most = Vec::Zero();
  for (int v = 0; v < kVectors; ++v) most = Vec::Max(Vec::Abs(x[v]), most);
  float largest = Vec::Largest(most);
  if (largest < kQuantizeToZero) largest = 0.0F;
  block->scale = largest / 127.0F;
  const Vec::F inverse = Vec::Set(largest > 0.0F ? 127.0F / largest : 0.0F);
  const Vec::F scale = Vec::Set(block->scale);
  Vec::F sum = Vec::Zero();  // of whole numbers: exact
  for (int v = 0; v < kVectors; ++v) {
    const Vec::F item = Vec::Round(Vec::Mul(x[v], inverse));
    Vec::StoreInt8(block->quant + v * Vec::kLanes, item);
    sum = Vec::Add(sum, item);
    x[v] = Vec::Sub(x[v], Vec::Mul(item, scale));
  }
  block->weighted_sum = block->scale * Vec::Sum(sum);
}

void QuantizeRow(const float* x, int64_t count, int64_t planes, QuantBlock* blocks) {
  for (int64_t b = 0; b < count / kBlockItems; ++b, x += kBlockItems) {
    Vec::F left[kBlockItems / Vec::kLanes];
    for (int i = 0; i < kBlockItems; i += Vec::kLanes) left[i / Vec::kLanes] = Vec::Load(x + i);
    for (int64_t plane = 0; plane < planes; ++plane) {
      QuantizeBlock(left, &blocks[b * planes + plane]);
    }
  }
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
