// Matmul of quantised weights and quantised activations, straight from the blocks of the model
// file.
//
// Each (row, output) has one vector accumulator that takes the blocks in order: exact integer
// products, then one fused multiply-add in floats with the product of both scales (and one more
// where the format has a minimum), for one plane after the other. Tiles of any size do the same
// operations per (row, output).
#ifndef MOORING_KERNELS_CPU_MATMUL_INT8_INL_H_
#define MOORING_KERNELS_CPU_MATMUL_INT8_INL_H_

#include "kernels/kernels.h"

namespace mooring::MOORING_ISA {
namespace {  // NOLINT(google-build-namespaces): a copy per instruction set

// Weights are fetched this far ahead, in the order of memory and not row by row: that took a matrix
// in memory from 60 % to 90 % of what one core can read there. 6 and 16 KiB measured alike, 1 KiB
// worse.
constexpr int64_t kPrefetchBytes = 6144;
// Rows that are done together keep their activations in half of a small L2.
constexpr int64_t kInputBytes = 131072;

template <typename Format, int kPlanes, int kRows, int kOutputs>
void Int8Tile(const MatmulTask& task, int64_t row, int64_t n) {
  const int64_t block_count = task.in_dim / kBlockItems;
  const QuantBlock* input = task.quant + row * block_count * kPlanes;
  const std::byte* weights = task.weights + n * task.weight_row_bytes;
  const std::byte* ahead = weights + kPrefetchBytes;
  Vec::F sum[kRows][kOutputs];
  for (int r = 0; r < kRows; ++r) {
    for (int j = 0; j < kOutputs; ++j) sum[r][j] = Vec::Zero();
  }
  for (int64_t b = 0; b < block_count; ++b) {
    typename Format::Weights items[kOutputs];
    Vec::F scale[kOutputs];
    [[maybe_unused]] Vec::F minimum[kOutputs];
    for (int j = 0; j < kOutputs; ++j) {
      const std::byte* block = weights + j * task.weight_row_bytes;
      __builtin_prefetch(ahead + j * Format::kBytes);
      items[j] = Format::Load(block);
      scale[j] = Format::Scale(block);
      if constexpr (Format::kHasMinimum) minimum[j] = Format::Minimum(block);
    }
    weights += Format::kBytes;
    ahead += kOutputs * Format::kBytes;
    for (int p = 0; p < kRows * kPlanes; ++p) {
      const int r = p / kPlanes;
      const QuantBlock& x = input[(r * block_count + b) * kPlanes + p % kPlanes];
      const Vec::Activations quant = Vec::LoadActivations(x.quant);
      const Vec::F x_scale = Vec::Set(x.scale);
      for (int j = 0; j < kOutputs; ++j) {
        const Vec::F both = Vec::Mul(scale[j], x_scale);
        sum[r][j] = Vec::Fma(Vec::Products(items[j], quant), both, sum[r][j]);
      }
      if constexpr (Format::kHasMinimum) {
        const Vec::F x_sum = Vec::InLane0(x.weighted_sum);
        for (int j = 0; j < kOutputs; ++j) sum[r][j] = Vec::Fma(minimum[j], x_sum, sum[r][j]);
      }
    }
  }
  for (int r = 0; r < kRows; ++r) {
    float* out = task.out + (row + r) * task.out_stride + n;
    for (int j = 0; j < kOutputs; ++j) out[j] = Vec::Sum(sum[r][j]);
  }
}

// All outputs of [begin, end) for kRows rows at a time of [row, row_end).
template <typename Format, int kPlanes, int kRows, int kOutputs>
void Int8Outputs(const MatmulTask& task, int64_t row, int64_t row_end, int64_t begin, int64_t end) {
  int64_t n = begin;
  for (; n + kOutputs <= end; n += kOutputs) {
    for (int64_t r = row; r < row_end; r += kRows) {
      Int8Tile<Format, kPlanes, kRows, kOutputs>(task, r, n);
    }
  }
  for (; n < end; ++n) {
    for (int64_t r = row; r < row_end; r += kRows) Int8Tile<Format, kPlanes, kRows, 1>(task, r, n);
  }
}

template <typename Format, int kPlanes>
void Int8Rows(const MatmulTask& task, int64_t begin, int64_t end) {
  const int64_t row_bytes =
      task.in_dim / kBlockItems * kPlanes * static_cast<int64_t>(sizeof(QuantBlock));
  const int64_t fitting = kInputBytes / (row_bytes + 1) / 4 * 4;
  const int64_t group = fitting < 4 ? 4 : fitting;
  int64_t row = 0;
  for (const int64_t fours = task.row_count / 4 * 4; row < fours;) {
    const int64_t row_end = row + group < fours ? row + group : fours;
    Int8Outputs<Format, kPlanes, 4, 2>(task, row, row_end, begin, end);
    row = row_end;
  }
  const int64_t rest = task.row_count - row;
  if (rest == 3) Int8Outputs<Format, kPlanes, 3, 2>(task, row, row + 3, begin, end);
  if (rest == 2) Int8Outputs<Format, kPlanes, 2, 4>(task, row, row + 2, begin, end);
  if (rest == 1) Int8Outputs<Format, kPlanes, 1, 4>(task, row, row + 1, begin, end);
}

template <typename Format>
void MatmulInt8(const MatmulTask& task, int64_t begin, int64_t end) {
  if (task.planes == 1) {
    Int8Rows<Format, 1>(task, begin, end);
  } else {
    Int8Rows<Format, 2>(task, begin, end);
  }
}

}  // namespace
}  // namespace mooring::MOORING_ISA

#endif  // MOORING_KERNELS_CPU_MATMUL_INT8_INL_H_
