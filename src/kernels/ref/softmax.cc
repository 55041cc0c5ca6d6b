#include <algorithm>
#include <cmath>

#include "kernels/ref/ref.h"

namespace mooring::ref {

void Softmax(int64_t count, float* x) {
  const float largest = *std::max_element(x, x + count);
  float sum = 0.0F;
  for (int64_t i = 0; i < count; ++i) {
    x[i] = std::exp(x[i] - largest);
    sum += x[i];
  }
  for (int64_t i = 0; i < count; ++i) x[i] /= sum;
}

}  // namespace mooring::ref
