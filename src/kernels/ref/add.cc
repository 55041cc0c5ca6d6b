#include "kernels/ref/ref.h"

namespace mooring::ref {

void Add(const float* y, int64_t count, float* x) {
  for (int64_t i = 0; i < count; ++i) x[i] += y[i];
}

}  // namespace mooring::ref
