// Rotary position: turning the pairs (i, i + half) of heads by tabled angles (Su et al. 2021).
#ifndef MOORING_KERNELS_CPU_TURN_INL_H_
#define MOORING_KERNELS_CPU_TURN_INL_H_

#include "kernels/cpu/math-inl.h"
#include "kernels/cpu/page_sight.h"

namespace mooring::MOORING_ISA {
namespace {  // NOLINT(google-build-namespaces): a copy per instruction set

// The two halves of kLanes pairs.
struct Pair {
  Vec::F a;
  Vec::F b;
};
[[gnu::always_inline]] inline Pair TurnPair(Pair x, Vec::F cosine, Vec::F sine) {
  return {Vec::Fms(x.a, cosine, Vec::Mul(x.b, sine)), Vec::Fma(x.a, sine, Vec::Mul(x.b, cosine))};
}

// Turns `head_count` heads, [head_count, head_dim] each way, and multiplies them by `scale`.
void TurnHeads(const float* heads, int head_count, int head_dim, const HeadTurn& turn, float scale,
               float* turned) {
  const Vec::F factor = Vec::Set(scale);
  const int half = turn.half_dim;
  int i = 0;
  for (; i + Vec::kLanes <= half; i += Vec::kLanes) {
    const Vec::F cosine = Vec::Mul(Vec::Load(turn.cosines + i), factor);
    const Vec::F sine = Vec::Mul(Vec::Load(turn.sines + i), factor);
    for (int g = 0; g < head_count; ++g) {
      const float* x = heads + g * head_dim + i;
      const Pair pair = TurnPair({Vec::Load(x), Vec::Load(x + half)}, cosine, sine);
      Vec::Store(turned + g * head_dim + i, pair.a);
      Vec::Store(turned + g * head_dim + i + half, pair.b);
    }
  }
  if (i < half) {
    const int rest = half - i;
    const Vec::F cosine = Vec::Mul(Vec::Load(turn.cosines + i, rest), factor);
    const Vec::F sine = Vec::Mul(Vec::Load(turn.sines + i, rest), factor);
    for (int g = 0; g < head_count; ++g) {
      const float* x = heads + g * head_dim + i;
      const Pair pair = TurnPair({Vec::Load(x, rest), Vec::Load(x + half, rest)}, cosine, sine);
      Vec::Store(turned + g * head_dim + i, pair.a, rest);
      Vec::Store(turned + g * head_dim + i + half, pair.b, rest);
    }
  }
  for (int g = 0; g < head_count; ++g) {
    const float* x = heads + g * head_dim;
    int d = 2 * half;
    for (; d + Vec::kLanes <= head_dim; d += Vec::kLanes) {
      Vec::Store(turned + g * head_dim + d, Vec::Mul(Vec::Load(x + d), factor));
    }
    if (d < head_dim) {
      const int rest = head_dim - d;
      Vec::Store(turned + g * head_dim + d, Vec::Mul(Vec::Load(x + d, rest), factor), rest);
    }
  }
}

}  // namespace
}  // namespace mooring::MOORING_ISA

#endif  // MOORING_KERNELS_CPU_TURN_INL_H_
