#include <cmath>

#include "kernels/ref/ref.h"

namespace mooring::ref {

void LayerNorm(const float* x, const float* weight, const float* bias, float epsilon, int64_t count,
               float* out) {
  const auto items = static_cast<float>(count);
  float sum = 0.0F;
  for (int64_t i = 0; i < count; ++i) sum += x[i];
  const float mean = sum / items;
  float squares = 0.0F;
  for (int64_t i = 0; i < count; ++i) squares += (x[i] - mean) * (x[i] - mean);
  const float inverse = 1.0F / std::sqrt(squares / items + epsilon);
  for (int64_t i = 0; i < count; ++i) out[i] = (x[i] - mean) * inverse * weight[i] + bias[i];
}

}  // namespace mooring::ref
