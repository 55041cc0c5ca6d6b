// Matmul of quantised weights and quantised activations, straight from the blocks of the model
// file.
//
// Each (row, output) has one vector accumulator that takes the blocks in order: exact integer
// products, then one fused multiply-add in floats with the product of both scales (and one more
// where the format has a minimum). Tiles of any size do the same operations per (row, output).
#ifndef MOORING_KERNELS_CPU_MATMUL_INTEGER_INL_H_
#define MOORING_KERNELS_CPU_MATMUL_INTEGER_INL_H_

#include "kernels/kernels.h"

namespace mooring::MOORING_ISA {
namespace {  // NOLINT(google-build-namespaces): a copy per instruction set

// Weights are fetched this far ahead, in the order of memory and not row by row: that took a matrix
// in memory from 60 % to 90 % of what one core can read there. 6 and 16 KiB measured alike, 1 KiB
// worse.
constexpr int64_t kPrefetchBytes = 6144;
// Rows that are done together keep their activations in half of a small L2.
constexpr int64_t kInputBytes = 131072;

template <typename Item>
[[gnu::always_inline]] inline const QuantBlock<Item>* InputOf(const MatmulTask& task) {
  if constexpr (sizeof(Item) == 1) return task.int8;
  if constexpr (sizeof(Item) == 2) return task.int16;
}

// One block of weights as the products with such activations want it.
template <typename Format, typename Item>
[[gnu::always_inline]] inline auto LoadWeights(const std::byte* block) {
  if constexpr (sizeof(Item) == 1) return Format::Load(block);
  if constexpr (sizeof(Item) == 2) return Vec::Widen(Format::Load(block));
}

template <typename Format, typename Item, int kRows, int kOutputs>
void IntegerTile(const MatmulTask& task, int64_t row, int64_t n) {
  const int64_t block_count = task.in_dim / kBlockItems;
  const QuantBlock<Item>* input = InputOf<Item>(task) + row * block_count;
  const std::byte* weights = task.weights + n * task.weight_row_bytes;
  const std::byte* ahead = weights + kPrefetchBytes;
  Vec::F sum[kRows][kOutputs];
  for (int r = 0; r < kRows; ++r) {
    for (int j = 0; j < kOutputs; ++j) sum[r][j] = Vec::Zero();
  }
  for (int64_t b = 0; b < block_count; ++b) {
    decltype(LoadWeights<Format, Item>(weights)) items[kOutputs];
    Vec::F scale[kOutputs];
    [[maybe_unused]] Vec::F minimum[kOutputs];
    for (int j = 0; j < kOutputs; ++j) {
      const std::byte* block = weights + j * task.weight_row_bytes;
      __builtin_prefetch(ahead + j * Format::kBytes);
      items[j] = LoadWeights<Format, Item>(block);
      scale[j] = Format::Scale(block);
      if constexpr (Format::kHasMinimum) minimum[j] = Format::Minimum(block);
    }
    weights += Format::kBytes;
    ahead += kOutputs * Format::kBytes;
    for (int r = 0; r < kRows; ++r) {
      const QuantBlock<Item>& x = input[r * block_count + b];
      const auto quant = Vec::LoadActivations(x.quant);
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
template <typename Format, typename Item, int kRows, int kOutputs>
void IntegerOutputs(const MatmulTask& task, int64_t row, int64_t row_end, int64_t begin,
                    int64_t end) {
  int64_t n = begin;
  for (; n + kOutputs <= end; n += kOutputs) {
    for (int64_t r = row; r < row_end; r += kRows) {
      IntegerTile<Format, Item, kRows, kOutputs>(task, r, n);
    }
  }
  for (; n < end; ++n) {
    for (int64_t r = row; r < row_end; r += kRows) IntegerTile<Format, Item, kRows, 1>(task, r, n);
  }
}

template <typename Format, typename Item>
void MatmulInteger(const MatmulTask& task, int64_t begin, int64_t end) {
  const int64_t row_bytes =
      task.in_dim / kBlockItems * static_cast<int64_t>(sizeof(QuantBlock<Item>));
  const int64_t fitting = kInputBytes / (row_bytes + 1) / 4 * 4;
  const int64_t group = fitting < 4 ? 4 : fitting;
  int64_t row = 0;
  for (const int64_t fours = task.row_count / 4 * 4; row < fours;) {
    const int64_t row_end = row + group < fours ? row + group : fours;
    IntegerOutputs<Format, Item, 4, 2>(task, row, row_end, begin, end);
    row = row_end;
  }
  const int64_t rest = task.row_count - row;
  if (rest == 3) IntegerOutputs<Format, Item, 3, 2>(task, row, row + 3, begin, end);
  if (rest == 2) IntegerOutputs<Format, Item, 2, 4>(task, row, row + 2, begin, end);
  if (rest == 1) IntegerOutputs<Format, Item, 1, 4>(task, row, row + 1, begin, end);
}

}  // namespace
}  // namespace mooring::MOORING_ISA

#endif  // MOORING_KERNELS_CPU_MATMUL_INTEGER_INL_H_
