#include <cmath>

#include "kernels/ref/ref.h"

namespace mooring::ref {

void SwiGlu(const float* gate, const float* up, int64_t count, float* out) {
  for (int64_t i = 0; i < count; ++i) {
    const float silu = gate[i] / (1.0F + std::exp(-gate[i]));
    out[i] = silu * up[i];
  }
}

}  // namespace mooring::ref
