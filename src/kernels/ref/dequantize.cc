#include <cstring>

#include "kernels/ref/ref.h"

namespace mooring::ref {
namespace {

// Weights come from a file at any address, so they are copied, never pointed at.
template <typename T>
T Read(const std::byte* bytes, int64_t index) {
  T value;
  std::memcpy(&value, bytes + index * static_cast<int64_t>(sizeof(T)), sizeof(T));
  return value;
}

IntegerBlock FromNibbles(const uint8_t* nibbles, int offset, uint16_t scale, uint16_t minimum) {
  IntegerBlock block{};
  block.scale = FloatFromHalf(scale);
  block.minimum = FloatFromHalf(minimum);
  for (int i = 0; i < kBlockItems / 2; ++i) {
    block.items[i] = (nibbles[i] & 15) - offset;
    block.items[i + kBlockItems / 2] = (nibbles[i] >> 4) - offset;
  }
  return block;
}

template <typename Block, IntegerBlock (*kUnpack)(const std::byte*)>
void DequantizeBlocks(const std::byte* row, int64_t count, float* out) {
  for (int64_t i = 0; i < count; i += kBlockItems, row += sizeof(Block)) {
    const IntegerBlock block = kUnpack(row);
    for (int k = 0; k < kBlockItems; ++k) {
      out[i + k] = static_cast<float>(block.items[k]) * block.scale + block.minimum;
    }
  }
}

}  // namespace

IntegerBlock UnpackQ8_0(const std::byte* bytes) {
  const auto packed = Read<BlockQ8_0>(bytes, 0);
  IntegerBlock block{};
  block.scale = FloatFromHalf(packed.scale);
  for (int i = 0; i < kBlockItems; ++i) block.items[i] = packed.quant[i];
  return block;
}

IntegerBlock UnpackQ4_0(const std::byte* bytes) {
  const auto packed = Read<BlockQ4_0>(bytes, 0);
  return FromNibbles(packed.quant, 8, packed.scale, 0);
}

IntegerBlock UnpackQ4_1(const std::byte* bytes) {
  const auto packed = Read<BlockQ4_1>(bytes, 0);
  return FromNibbles(packed.quant, 0, packed.scale, packed.minimum);
}

void DequantizeF32(const std::byte* row, int64_t count, float* out) {
  for (int64_t i = 0; i < count; ++i) out[i] = Read<float>(row, i);
}

void DequantizeF16(const std::byte* row, int64_t count, float* out) {
  for (int64_t i = 0; i < count; ++i) out[i] = FloatFromHalf(Read<uint16_t>(row, i));
}

void DequantizeBF16(const std::byte* row, int64_t count, float* out) {
  for (int64_t i = 0; i < count; ++i) out[i] = FloatFromBFloat(Read<uint16_t>(row, i));
}

void DequantizeQ8_0(const std::byte* row, int64_t count, float* out) {
  DequantizeBlocks<BlockQ8_0, &UnpackQ8_0>(row, count, out);
}

void DequantizeQ4_0(const std::byte* row, int64_t count, float* out) {
  DequantizeBlocks<BlockQ4_0, &UnpackQ4_0>(row, count, out);
}

void DequantizeQ4_1(const std::byte* row, int64_t count, float* out) {
  DequantizeBlocks<BlockQ4_1, &UnpackQ4_1>(row, count, out);
}

}  // namespace mooring::ref
