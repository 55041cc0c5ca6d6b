#include <algorithm>
#include <cmath>

#include "kernels/ref/ref.h"

namespace mooring::ref {

void QuantizeRow(const float* x, int64_t count, QuantBlock* blocks) {
  for (int64_t b = 0; b < count / kBlockItems; ++b, x += kBlockItems) {
    float largest = 0.0F;
    for (int i = 0; i < kBlockItems; ++i) largest = std::max(largest, std::abs(x[i]));
    // So small a block counts as zeros: 127 / largest must stay finite.
    if (largest < kQuantizeToZero) largest = 0.0F;
    const float inverse = largest > 0.0F ? 127.0F / largest : 0.0F;
    int sum = 0;
    for (int i = 0; i < kBlockItems; ++i) {
      const auto item = static_cast<int>(std::nearbyint(x[i] * inverse));
      blocks[b].quant[i] = static_cast<int8_t>(item);
      sum += item;
    }
    blocks[b].scale = largest / 127.0F;
    blocks[b].weighted_sum = blocks[b].scale * static_cast<float>(sum);
  }
}

}  // namespace mooring::ref
