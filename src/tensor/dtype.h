// Element types and the byte layouts of quantised blocks, as model files store them.
//
// A block type packs `block_items` consecutive items of a row into `block_bytes` bytes; scalar
// types are blocks of one. All numbers are little endian. What maths exists for a type is the
// business of kernels/formats.cc.
//
// The conversions are always inlined: an out-of-line copy built for a newer instruction set could
// win at link time and crash an older machine.
//
// Thread rule: constants and pure functions.
#ifndef MOORING_TENSOR_DTYPE_H_
#define MOORING_TENSOR_DTYPE_H_

#include <bit>
#include <cstdint>
#include <cstring>
#include <string_view>

namespace mooring {

enum class DType : uint8_t { kF32, kF16, kBF16, kQ8_0, kQ4_0, kQ4_1 };
inline constexpr int kDTypeCount = 6;

struct DTypeInfo {
  DType dtype;
  std::string_view name;  // as model files and people write it: "Q4_1"
  int block_items;
  int block_bytes;
};

const DTypeInfo& InfoOf(DType dtype);

inline constexpr int kBlockItems = 32;  // items per block of every quantised type here

// Item i of a block is quant[i] * scale.
struct BlockQ8_0 {
  uint16_t scale;  // fp16
  int8_t quant[kBlockItems];
};

// Items 0-15 are the low nibbles, 16-31 the high ones; item = (nibble - 8) * scale.
struct BlockQ4_0 {
  uint16_t scale;  // fp16
  uint8_t quant[kBlockItems / 2];
};

// As Q4_0, but item = nibble * scale + minimum.
struct BlockQ4_1 {
  uint16_t scale;    // fp16
  uint16_t minimum;  // fp16
  uint8_t quant[kBlockItems / 2];
};

static_assert(sizeof(BlockQ8_0) == 34 && sizeof(BlockQ4_0) == 18 && sizeof(BlockQ4_1) == 20);

// IEEE 754 half precision. Exact.
[[gnu::always_inline]] inline float FloatFromHalf(uint16_t half) {
  const uint32_t sign = static_cast<uint32_t>(half & 0x8000U) << 16;
  const uint32_t exponent = (half >> 10) & 0x1FU;
  const uint32_t mantissa = half & 0x3FFU;
  if (exponent == 0) {  // zero or subnormal: mantissa * 2^-24
    const float magnitude = static_cast<float>(mantissa) * 0x1.0p-24F;
    return std::bit_cast<float>(sign | std::bit_cast<uint32_t>(magnitude));
  }
  const uint32_t wide = exponent == 31 ? 255U : exponent + 112U;
  return std::bit_cast<float>(sign | (wide << 23) | (mantissa << 13));
}

// Rounds to the nearest half, ties to even; too large becomes infinity.
[[gnu::always_inline]] inline uint16_t HalfFromFloat(float value) {
  const uint32_t bits = std::bit_cast<uint32_t>(value);
  const auto sign = static_cast<uint16_t>((bits >> 16) & 0x8000U);
  const uint32_t magnitude = bits & 0x7FFFFFFFU;
  if (magnitude >= 0x7F800000U) {  // infinity or NaN
    return static_cast<uint16_t>(sign | 0x7C00U | (magnitude > 0x7F800000U ? 0x200U : 0U));
  }
  if (magnitude >= 0x477FF000U) return static_cast<uint16_t>(sign | 0x7C00U);
  if (magnitude < 0x38800000U) {  // subnormal half: let the adder round at 2^-24
    const float shifted = std::bit_cast<float>(magnitude) + 0.5F;
    return static_cast<uint16_t>(sign | (std::bit_cast<uint32_t>(shifted) - 0x3F000000U));
  }
  const uint32_t odd = (magnitude >> 13) & 1U;
  return static_cast<uint16_t>(sign | ((magnitude - 0x38000000U + 0xFFFU + odd) >> 13));
}

// bfloat16 is the upper half of a float. Exact.
[[gnu::always_inline]] inline float FloatFromBFloat(uint16_t value) {
  return std::bit_cast<float>(static_cast<uint32_t>(value) << 16);
}

// Rounds to the nearest bfloat16, ties to even.
[[gnu::always_inline]] inline uint16_t BFloatFromFloat(float value) {
  const uint32_t bits = std::bit_cast<uint32_t>(value);
  if ((bits & 0x7FFFFFFFU) > 0x7F800000U) return static_cast<uint16_t>((bits >> 16) | 0x40U);
  return static_cast<uint16_t>((bits + 0x7FFFU + ((bits >> 16) & 1U)) >> 16);
}

}  // namespace mooring

#endif  // MOORING_TENSOR_DTYPE_H_
