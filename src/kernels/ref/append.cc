#include <cstring>

#include "kernels/ref/ref.h"

namespace mooring::ref {
namespace {

void WriteItem(DType dtype, float value, int64_t index, std::byte* items) {
  if (dtype == DType::kF32) {
    std::memcpy(items + index * 4, &value, 4);
  } else {
    const uint16_t half = HalfFromFloat(value);
    std::memcpy(items + index * 2, &half, 2);
  }
}

// Item d of `head` goes to items[first + d * step], the scale of block b to slot `slot` of it.
void WriteBytes(const PageLayout& layout, const float* head, int slot, int64_t first, int64_t step,
                std::byte* items) {
  float padded[kMaxHeadDim] = {};
  std::memcpy(padded, head, sizeof(float) * static_cast<size_t>(layout.head_dim));
  Int8Block blocks[kMaxHeadDim / kBlockItems];
  QuantizeInt8(padded, int64_t{layout.scale_blocks()} * kBlockItems, blocks);
  for (int d = 0; d < layout.head_dim; ++d) {
    items[first + d * step] =
        static_cast<std::byte>(blocks[d / kBlockItems].quant[d % kBlockItems]);
  }
  std::byte* scales = items + layout.scales_offset();
  for (int b = 0; b < layout.scale_blocks(); ++b) {
    const uint16_t scale = HalfFromFloat(blocks[b].scale);
    std::memcpy(scales + (b * kPageSlots + slot) * 2, &scale, 2);
  }
}

}  // namespace

void Append(const PageLayout& layout, const RotaryTable* rotary, int slot, const float* key,
            const float* value, std::byte* page) {
  float turned[kMaxHeadDim];
  for (int d = 0; d < layout.head_dim; ++d) turned[d] = key[d];
  if (rotary != nullptr && rotary->half_dim() > 0) {
    RotateHead(turned, rotary->cosines(slot), rotary->sines(slot), rotary->half_dim());
  }
  std::byte* values = page + layout.key_bytes();
  if (layout.dtype == DType::kQ8_0) {
    WriteBytes(layout, turned, slot, slot, kPageSlots, page);
    WriteBytes(layout, value, slot, int64_t{slot} * layout.head_dim, 1, values);
    return;
  }
  for (int d = 0; d < layout.head_dim; ++d) {
    WriteItem(layout.dtype, turned[d], int64_t{d} * kPageSlots + slot, page);
    WriteItem(layout.dtype, value[d], int64_t{slot} * layout.head_dim + d, values);
  }
}

}  // namespace mooring::ref
