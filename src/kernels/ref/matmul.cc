#include <algorithm>

#include "kernels/ref/ref.h"

namespace mooring::ref {
namespace {

// The sum runs over the inputs in order, whatever the number of rows.
template <DequantizeFunction kDequantize, int kItems, int kBytes>
void MatmulFloat(const MatmulTask& task, int64_t begin, int64_t end) {
  for (int64_t n = begin; n < end; ++n) {
    const std::byte* weights = task.weights + n * task.weight_row_bytes;
    for (int64_t row = 0; row < task.row_count; ++row) task.out[row * task.out_stride + n] = 0.0F;
    for (int64_t k = 0; k < task.in_dim; k += kBlockItems) {
      float items[kBlockItems];
      const int64_t count = std::min<int64_t>(kBlockItems, task.in_dim - k);
      kDequantize(weights + k / kItems * kBytes, count, items);
      for (int64_t row = 0; row < task.row_count; ++row) {
        const float* input = task.input + row * task.in_dim + k;
        float& sum = task.out[row * task.out_stride + n];
        for (int64_t i = 0; i < count; ++i) sum += input[i] * items[i];
      }
    }
  }
}

// sum over blocks of (integer product) * scales + minimum * (sum of the activations).
template <IntegerBlock (*kUnpack)(const std::byte*), int kBytes, auto kInput>
void MatmulInteger(const MatmulTask& task, int64_t begin, int64_t end) {
  const int64_t block_count = task.in_dim / kBlockItems;
  for (int64_t n = begin; n < end; ++n) {
    const std::byte* weights = task.weights + n * task.weight_row_bytes;
    for (int64_t row = 0; row < task.row_count; ++row) {
      float sum = 0.0F;
      for (int64_t b = 0; b < block_count; ++b) {
        const IntegerBlock weight = kUnpack(weights + b * kBytes);
        const auto& input = (task.*kInput)[row * block_count + b];
        int32_t dot = 0;
        for (int i = 0; i < kBlockItems; ++i) dot += weight.items[i] * input.quant[i];
        sum += static_cast<float>(dot) * (weight.scale * input.scale);
        sum += weight.minimum * input.weighted_sum;
      }
      task.out[row * task.out_stride + n] = sum;
    }
  }
}

template <DequantizeFunction kDequantize, IntegerBlock (*kUnpack)(const std::byte*), int kBytes>
constexpr FormatKernels OfBlocks() {
  return {kDequantize, &MatmulFloat<kDequantize, kBlockItems, kBytes>,
          &MatmulInteger<kUnpack, kBytes, &MatmulTask::int8>,
          &MatmulInteger<kUnpack, kBytes, &MatmulTask::int16>};
}

}  // namespace

const FormatKernels kF32 = {&DequantizeF32, &MatmulFloat<&DequantizeF32, 1, 4>};
const FormatKernels kF16 = {&DequantizeF16, &MatmulFloat<&DequantizeF16, 1, 2>};
const FormatKernels kBF16 = {&DequantizeBF16, &MatmulFloat<&DequantizeBF16, 1, 2>};
const FormatKernels kQ8_0 = OfBlocks<&DequantizeQ8_0, &UnpackQ8_0, sizeof(BlockQ8_0)>();
const FormatKernels kQ4_0 = OfBlocks<&DequantizeQ4_0, &UnpackQ4_0, sizeof(BlockQ4_0)>();
const FormatKernels kQ4_1 = OfBlocks<&DequantizeQ4_1, &UnpackQ4_1, sizeof(BlockQ4_1)>();

}  // namespace mooring::ref
