#include <cmath>

#include "kernels/ref/ref.h"

namespace mooring::ref {

int64_t ArgMax(const float* x, int64_t count) {
  int64_t best = 0;
  for (int64_t i = 1; i < count; ++i) {
    if (x[i] > x[best] || (std::isnan(x[best]) && !std::isnan(x[i]))) best = i;
  }
  return best;
}

}  // namespace mooring::ref
