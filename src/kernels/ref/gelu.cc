#include <cmath>
#include <numbers>

#include "kernels/ref/ref.h"

namespace mooring::ref {

void Gelu(const float* x, int64_t count, float* out) {
  for (int64_t i = 0; i < count; ++i) {
    // erfc keeps the precision where 1 + erf would cancel.
    out[i] = 0.5F * x[i] * std::erfc(-x[i] * (std::numbers::sqrt2_v<float> / 2));
  }
}

}  // namespace mooring::ref
