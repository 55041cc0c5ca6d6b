#include <algorithm>
#include <cmath>

#include "kernels/ref/ref.h"

namespace mooring::ref {
namespace {

template <typename Item>
void QuantizeRow(const float* x, int64_t count, QuantBlock<Item>* blocks) {
  constexpr float kMost = QuantBlock<Item>::kMost;
  for (int64_t b = 0; b < count / kBlockItems; ++b, x += kBlockItems) {
    float largest = 0.0F;
    for (int i = 0; i < kBlockItems; ++i) largest = std::max(largest, std::abs(x[i]));
    // So small a block counts as zeros: the inverse must stay finite.
    if (largest < kQuantizeToZero) largest = 0.0F;
    const float inverse = largest > 0.0F ? kMost / largest : 0.0F;
    int sum = 0;
    for (int i = 0; i < kBlockItems; ++i) {
      const auto item = static_cast<int>(std::nearbyint(x[i] * inverse));
      blocks[b].quant[i] = static_cast<Item>(item);
      sum += item;
    }
    blocks[b].scale = largest / kMost;
    blocks[b].weighted_sum = blocks[b].scale * static_cast<float>(sum);
  }
}

}  // namespace

void QuantizeInt8(const float* x, int64_t count, Int8Block* blocks) {
  QuantizeRow(x, count, blocks);
}
void QuantizeInt16(const float* x, int64_t count, Int16Block* blocks) {
  QuantizeRow(x, count, blocks);
}

}  // namespace mooring::ref
