#include <cmath>

#include "kernels/ref/ref.h"

namespace mooring::ref {

void RmsNorm(const float* x, const float* weight, float epsilon, int64_t count, float* out) {
  float square_sum = 0.0F;
  for (int64_t i = 0; i < count; ++i) square_sum += x[i] * x[i];
  const float inverse = 1.0F / std::sqrt(square_sum / static_cast<float>(count) + epsilon);
  for (int64_t i = 0; i < count; ++i) out[i] = x[i] * inverse * weight[i];
}

}  // namespace mooring::ref
