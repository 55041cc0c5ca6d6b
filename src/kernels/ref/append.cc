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

}  // namespace

void Append(const PageLayout& layout, const RotaryTable* rotary, int slot, const float* key,
            const float* value, std::byte* page) {
  float turned[kMaxHeadDim];
  for (int d = 0; d < layout.head_dim; ++d) turned[d] = key[d];
  if (rotary != nullptr && rotary->half_dim() > 0) {
    RotateHead(turned, rotary->cosines(slot), rotary->sines(slot), rotary->half_dim());
  }
  std::byte* values = page + layout.key_bytes();
  for (int d = 0; d < layout.head_dim; ++d) {
    WriteItem(layout.dtype, turned[d], int64_t{d} * kPageSlots + slot, page);
    WriteItem(layout.dtype, value[d], int64_t{slot} * layout.head_dim + d, values);
  }
}

}  // namespace mooring::ref
