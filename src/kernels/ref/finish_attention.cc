#include "kernels/ref/ref.h"

namespace mooring::ref {

void FinishAttention(const float* state, int head_dim, float* out) {
  const float sum = state[1];
  for (int d = 0; d < head_dim; ++d) out[d] = sum == 0.0F ? 0.0F : state[2 + d] / sum;
}

}  // namespace mooring::ref
