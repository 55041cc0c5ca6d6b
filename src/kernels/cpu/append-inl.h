// Writing one token's key and value into its slot of a page, in the page's type.
#ifndef MOORING_KERNELS_CPU_APPEND_INL_H_
#define MOORING_KERNELS_CPU_APPEND_INL_H_

#include "kernels/cpu/rows-inl.h"
#include "kernels/cpu/turn-inl.h"
#include "kernels/kernels.h"

namespace mooring::MOORING_ISA {
namespace {  // NOLINT(google-build-namespaces): a copy per instruction set

// A head in blocks of bytes: item d to items[d * step], the scale of block b to scales[b, 0].
void AppendBytes(const float* head, int head_dim, int64_t step, int8_t* items, uint16_t* scales) {
  alignas(64) float padded[kMaxHeadDim + Vec::kLanes] = {};
  __builtin_memcpy(padded, head, sizeof(float) * static_cast<size_t>(head_dim));
  Int8Block blocks[kMaxHeadDim / kBlockItems];
  const int block_count = (head_dim + kBlockItems - 1) / kBlockItems;
  QuantizeInt8(padded, int64_t{block_count} * kBlockItems, blocks);
  for (int d = 0; d < head_dim; ++d) {
    items[d * step] = blocks[d / kBlockItems].quant[d % kBlockItems];
  }
  for (int b = 0; b < block_count; ++b) scales[b * kPageSlots] = HalfFromFloat(blocks[b].scale);
}

void Append(const PageLayout& layout, const RotaryTable* rotary, int slot, const float* key,
            const float* value, std::byte* page) {
  const int head_dim = layout.head_dim;
  const int64_t item_count = int64_t{kPageSlots} * head_dim;
  alignas(64) float turned[kMaxHeadDim + Vec::kLanes];
  TurnHeads(key, 1, head_dim, TurnBy(rotary, slot), 1.0F, turned);
  if (layout.dtype == DType::kF32) {
    auto* keys = reinterpret_cast<float*>(page);
    for (int d = 0; d < head_dim; ++d) keys[d * kPageSlots + slot] = turned[d];
    __builtin_memcpy(keys + item_count + int64_t{slot} * head_dim, value,
                     sizeof(float) * static_cast<size_t>(head_dim));
    return;
  }
  if (layout.dtype == DType::kQ8_0) {
    std::byte* values = page + layout.key_bytes();
    AppendBytes(turned, head_dim, kPageSlots, reinterpret_cast<int8_t*>(page) + slot,
                reinterpret_cast<uint16_t*>(page + layout.scales_offset()) + slot);
    AppendBytes(value, head_dim, 1, reinterpret_cast<int8_t*>(values) + int64_t{slot} * head_dim,
                reinterpret_cast<uint16_t*>(values + layout.scales_offset()) + slot);
    return;
  }
  auto* keys = reinterpret_cast<uint16_t*>(page);
  uint16_t* values = keys + item_count + int64_t{slot} * head_dim;
  alignas(64) uint16_t halves[kMaxHeadDim + Vec::kLanes];
  for (int d = 0; d < head_dim; d += Vec::kLanes) Vec::StoreHalf(halves + d, Vec::Load(turned + d));
  for (int d = 0; d < head_dim; ++d) keys[d * kPageSlots + slot] = halves[d];
  int d = 0;
  for (; d + Vec::kLanes <= head_dim; d += Vec::kLanes) {
    Vec::StoreHalf(values + d, Vec::Load(value + d));
  }
  if (d < head_dim) {
    Vec::StoreHalf(halves, Vec::Load(value + d, head_dim - d));
    __builtin_memcpy(values + d, halves, sizeof(uint16_t) * static_cast<size_t>(head_dim - d));
  }
}

}  // namespace
}  // namespace mooring::MOORING_ISA

#endif  // MOORING_KERNELS_CPU_APPEND_INL_H_
