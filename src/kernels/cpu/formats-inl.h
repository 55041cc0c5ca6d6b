// How each weight format turns into vectors: whole runs of items as floats, and single blocks as
// integers. Weights come from a file at any address, so nothing here needs alignment.
#ifndef MOORING_KERNELS_CPU_FORMATS_INL_H_
#define MOORING_KERNELS_CPU_FORMATS_INL_H_

#include "kernels/kernels.h"

namespace mooring::MOORING_ISA {
namespace {  // NOLINT(google-build-namespaces): a copy per instruction set

template <typename T>
[[gnu::always_inline]] inline T ReadScalar(const std::byte* p) {
  T value;
  __builtin_memcpy(&value, p, sizeof(T));
  return value;
}

// The scalar formats differ in how kLanes of them load. A short tail goes through a buffer.
template <int kItemBytes, Vec::F (*kLoad)(const void*)>
struct ScalarFormat {
  static constexpr int kItems = 1;
  static constexpr int kBytes = kItemBytes;
  static void Unpack(const std::byte* row, int64_t count, float* out) {
    int64_t i = 0;
    for (; i + Vec::kLanes <= count; i += Vec::kLanes) {
      Vec::Store(out + i, kLoad(row + i * kBytes));
    }
    if (i == count) return;
    const int rest = static_cast<int>(count - i);
    alignas(64) std::byte padded[Vec::kLanes * kBytes] = {};
    __builtin_memcpy(padded, row + i * kBytes, static_cast<size_t>(rest * kBytes));
    Vec::Store(out + i, kLoad(padded), rest);
  }
};

[[gnu::always_inline]] inline Vec::F LoadFloats(const void* p) {
  return Vec::Load(static_cast<const float*>(p));
}
[[gnu::always_inline]] inline Vec::F LoadHalves(const void* p) { return Vec::LoadHalf(p); }
[[gnu::always_inline]] inline Vec::F LoadBFloats(const void* p) { return Vec::LoadBFloat(p); }

using F32 = ScalarFormat<4, &LoadFloats>;
using F16 = ScalarFormat<2, &LoadHalves>;
using BF16 = ScalarFormat<2, &LoadBFloats>;

// The block formats, under their own names: `Weights` is one block as the integer products want it.
// NOLINTBEGIN(readability-identifier-naming)
struct Q8_0 {
  static constexpr int kItems = kBlockItems;
  static constexpr int kBytes = sizeof(BlockQ8_0);
  static constexpr int kQuant = offsetof(BlockQ8_0, quant);
  static constexpr bool kHasMinimum = false;
  using Weights = Vec::Signed;
  [[gnu::always_inline]] static inline Weights Load(const std::byte* block) {
    return Vec::LoadSigned(block + kQuant);
  }
  [[gnu::always_inline]] static inline Vec::F Scale(const std::byte* block) {
    return Vec::SetHalf(ReadScalar<uint16_t>(block));
  }
  static void Unpack(const std::byte* row, int64_t count, float* out) {
    for (int64_t i = 0; i < count; i += kItems, row += kBytes) {
      const Vec::F scale = Scale(row);
      for (int k = 0; k < kItems; k += Vec::kLanes) {
        Vec::Store(out + i + k, Vec::Mul(Vec::LoadInt8(row + kQuant + k), scale));
      }
    }
  }
};

struct Q4_0 {
  static constexpr int kItems = kBlockItems;
  static constexpr int kBytes = sizeof(BlockQ4_0);
  static constexpr int kQuant = offsetof(BlockQ4_0, quant);
  static constexpr bool kHasMinimum = false;
  using Weights = Vec::Signed;
  [[gnu::always_inline]] static inline Weights Load(const std::byte* block) {
    return Vec::UnpackCenteredNibbles(block + kQuant);
  }
  [[gnu::always_inline]] static inline Vec::F Scale(const std::byte* block) {
    return Vec::SetHalf(ReadScalar<uint16_t>(block));
  }
  static void Unpack(const std::byte* row, int64_t count, float* out) {
    const Vec::F center = Vec::Set(8.0F);
    for (int64_t i = 0; i < count; i += kItems, row += kBytes) {
      const Vec::F scale = Scale(row);
      for (int k = 0; k < kItems / 2; k += Vec::kLanes) {
        Vec::F low;
        Vec::F high;
        Vec::LoadNibbles(row + kQuant + k, &low, &high);
        Vec::Store(out + i + k, Vec::Mul(Vec::Sub(low, center), scale));
        Vec::Store(out + i + k + kItems / 2, Vec::Mul(Vec::Sub(high, center), scale));
      }
    }
  }
};

struct Q4_1 {
  static constexpr int kItems = kBlockItems;
  static constexpr int kBytes = sizeof(BlockQ4_1);
  static constexpr int kQuant = offsetof(BlockQ4_1, quant);
  static constexpr bool kHasMinimum = true;
  using Weights = Vec::Nibbles;
  [[gnu::always_inline]] static inline Weights Load(const std::byte* block) {
    return Vec::UnpackNibbles(block + kQuant);
  }
  [[gnu::always_inline]] static inline Vec::F Scale(const std::byte* block) {
    return Vec::SetHalf(ReadScalar<uint16_t>(block));
  }
  [[gnu::always_inline]] static inline Vec::F Minimum(const std::byte* block) {
    return Vec::SetHalf(ReadScalar<uint16_t>(block + offsetof(BlockQ4_1, minimum)));
  }
  // nibble * scale is exact in a float, so the fused form rounds once, as the reference does.
  static void Unpack(const std::byte* row, int64_t count, float* out) {
    for (int64_t i = 0; i < count; i += kItems, row += kBytes) {
      const Vec::F scale = Scale(row);
      const Vec::F minimum = Minimum(row);
      for (int k = 0; k < kItems / 2; k += Vec::kLanes) {
        Vec::F low;
        Vec::F high;
        Vec::LoadNibbles(row + kQuant + k, &low, &high);
        Vec::Store(out + i + k, Vec::Fma(low, scale, minimum));
        Vec::Store(out + i + k + kItems / 2, Vec::Fma(high, scale, minimum));
      }
    }
  }
};

// NOLINTEND(readability-identifier-naming)

template <typename Format>
void Dequantize(const std::byte* row, int64_t count, float* out) {
  Format::Unpack(row, count, out);
}

}  // namespace
}  // namespace mooring::MOORING_ISA

#endif  // MOORING_KERNELS_CPU_FORMATS_INL_H_
