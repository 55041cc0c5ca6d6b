#include "kernels/ref/ref.h"

namespace mooring::ref {

void RoundRow(DType dtype, const float* x, int64_t count, float* out) {
  for (int64_t i = 0; i < count; ++i) {
    out[i] = dtype == DType::kF16 ? FloatFromHalf(HalfFromFloat(x[i]))
                                  : FloatFromBFloat(BFloatFromFloat(x[i]));
  }
}

}  // namespace mooring::ref
