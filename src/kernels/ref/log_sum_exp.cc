#include <algorithm>
#include <cmath>

#include "kernels/ref/ref.h"

namespace mooring::ref {

double LogSumExp(const float* x, int64_t count) {
  const double largest = *std::max_element(x, x + count);
  double sum = 0.0;
  for (int64_t i = 0; i < count; ++i) sum += std::exp(static_cast<double>(x[i]) - largest);
  return largest + std::log(sum);
}

}  // namespace mooring::ref
