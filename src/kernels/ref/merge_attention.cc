#include <algorithm>
#include <cmath>

#include "kernels/ref/ref.h"

namespace mooring::ref {

void MergeAttention(const float* from, int head_dim, float* into) {
  if (from[1] == 0.0F) return;  // has seen nothing; exp(-inf - -inf) would be NaN
  if (into[1] == 0.0F) {
    std::copy_n(from, AttentionStateFloats(head_dim), into);
    return;
  }
  const float max = std::max(from[0], into[0]);
  const float from_factor = std::exp(from[0] - max);
  const float into_factor = std::exp(into[0] - max);
  into[0] = max;
  for (int64_t i = 1; i < AttentionStateFloats(head_dim); ++i) {
    into[i] = into[i] * into_factor + from[i] * from_factor;
  }
}

}  // namespace mooring::ref
