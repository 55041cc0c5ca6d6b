#include <algorithm>
#include <cmath>

#include "kernels/ref/ref.h"

namespace mooring::ref {
namespace {

// Quantises 32 items and leaves in `x` what that rounded away.
void QuantizeBlock(float* x, QuantBlock* block) {
  float largest = 0.0F;
  for (int i = 0; i < kBlockItems; ++i) largest = std::max(largest, std::abs(x[i]));
  // So small a block counts as zeros: 127 / largest must stay finite.
  if (largest < kQuantizeToZero) largest = 0.0F;
  const float inverse = largest > 0.0F ? 127.0F / largest : 0.0F;
  block->scale = largest / 127.0F;
  int sum = 0;
  for (int i = 0; i < kBlockItems; ++i) {
    const auto item = static_cast<int>(std::nearbyint(x[i] * inverse));
    block->quant[i] = static_cast<int8_t>(item);
    sum += item;
    x[i] -= static_cast<float>(item) * block->scale;
  }
  block->weighted_sum = block->scale * static_cast<float>(sum);
}

}  // namespace

void QuantizeRow(const float* x, int64_t count, int64_t planes, QuantBlock* blocks) {
  for (int64_t b = 0; b < count / kBlockItems; ++b, x += kBlockItems) {
    float left[kBlockItems];
    std::copy_n(x, kBlockItems, left);
    for (int64_t plane = 0; plane < planes; ++plane) {
      QuantizeBlock(left, &blocks[b * planes + plane]);
    }
  }
}

}  // namespace mooring::ref
