// Matmul in floats: a piece of a few weight rows is unpacked to floats once and met by every input
// row of a group.
//
// Each (row, output) has one vector accumulator that takes the inputs in order, kLanes at a time,
// and is added up at the end: the same operations whatever the number of rows and outputs beside
// it.
#ifndef MOORING_KERNELS_CPU_MATMUL_FLOAT_INL_H_
#define MOORING_KERNELS_CPU_MATMUL_FLOAT_INL_H_

#include "kernels/kernels.h"

namespace mooring::MOORING_ISA {
namespace {  // NOLINT(google-build-namespaces): a copy per instruction set

constexpr int kFloatRows = 4;         // 4 x 3 accumulators, 3 weights and an input fill
constexpr int kFloatOutputs = 3;      // the 16 registers of AVX2
constexpr int kFloatPanel = 6;        // outputs that are unpacked together
constexpr int kFloatGroup = 32;       // rows that share an unpacked panel
constexpr int64_t kFloatPiece = 576;  // items per piece: panel and 4 inputs fill 23 KiB of L1

struct FloatPanel {
  alignas(64) float weights[kFloatPanel][kFloatPiece];  // padded with zeros to whole vectors
  alignas(64) float sums[kFloatGroup][kFloatPanel][Vec::kLanes];
};

// Rows [row, row + kRows) of the group and outputs [n, n + kOutputs) of the panel take `count`
// items more. `input` is the group's, [rows, stride].
template <int kRows, int kOutputs>
void FloatTile(const float* input, int64_t stride, int64_t count, FloatPanel& panel, int row,
               int n) {
  input += row * stride;
  Vec::F sum[kRows][kOutputs];
  for (int r = 0; r < kRows; ++r) {
    for (int j = 0; j < kOutputs; ++j) sum[r][j] = Vec::Load(panel.sums[row + r][n + j]);
  }
  int64_t k = 0;
  for (; k + Vec::kLanes <= count; k += Vec::kLanes) {
    Vec::F weight[kOutputs];
    for (int j = 0; j < kOutputs; ++j) weight[j] = Vec::Load(panel.weights[n + j] + k);
    for (int r = 0; r < kRows; ++r) {
      const Vec::F x = Vec::Load(input + r * stride + k);
      for (int j = 0; j < kOutputs; ++j) sum[r][j] = Vec::Fma(x, weight[j], sum[r][j]);
    }
  }
  if (k < count) {
    const int rest = static_cast<int>(count - k);
    for (int r = 0; r < kRows; ++r) {
      const Vec::F x = Vec::Load(input + r * stride + k, rest);
      for (int j = 0; j < kOutputs; ++j) {
        sum[r][j] = Vec::Fma(x, Vec::Load(panel.weights[n + j] + k), sum[r][j]);
      }
    }
  }
  for (int r = 0; r < kRows; ++r) {
    for (int j = 0; j < kOutputs; ++j) Vec::Store(panel.sums[row + r][n + j], sum[r][j]);
  }
}

// kRows rows and all outputs of the panel: the inputs stay in L1 meanwhile.
template <int kRows>
void FloatRows(const float* input, int64_t stride, int64_t count, FloatPanel& panel, int row,
               int outputs) {
  int n = 0;
  for (; n + kFloatOutputs <= outputs; n += kFloatOutputs) {
    FloatTile<kRows, kFloatOutputs>(input, stride, count, panel, row, n);
  }
  for (; n < outputs; ++n) FloatTile<kRows, 1>(input, stride, count, panel, row, n);
}

// Outputs [n, n + outputs) of rows [row, row + rows).
template <typename Format>
void FloatOutputs(const MatmulTask& task, int64_t n, int outputs, int64_t row, int rows,
                  FloatPanel& panel) {
  for (int r = 0; r < rows; ++r) {
    for (int j = 0; j < outputs; ++j) Vec::Store(panel.sums[r][j], Vec::Zero());
  }
  for (int64_t k = 0; k < task.in_dim; k += kFloatPiece) {
    const int64_t left = task.in_dim - k;
    const int64_t count = left < kFloatPiece ? left : kFloatPiece;
    for (int j = 0; j < outputs; ++j) {
      const std::byte* weights = task.weights + (n + j) * task.weight_row_bytes;
      if (count % Vec::kLanes != 0) {
        Vec::Store(panel.weights[j] + count / Vec::kLanes * Vec::kLanes, Vec::Zero());
      }
      Format::Unpack(weights + k / Format::kItems * Format::kBytes, count, panel.weights[j]);
    }
    const float* input = task.input + row * task.in_dim + k;
    int r = 0;
    for (; r + kFloatRows <= rows; r += kFloatRows) {
      FloatRows<kFloatRows>(input, task.in_dim, count, panel, r, outputs);
    }
    if (rows - r == 3) FloatRows<3>(input, task.in_dim, count, panel, r, outputs);
    if (rows - r == 2) FloatRows<2>(input, task.in_dim, count, panel, r, outputs);
    if (rows - r == 1) FloatRows<1>(input, task.in_dim, count, panel, r, outputs);
  }
  for (int r = 0; r < rows; ++r) {
    float* out = task.out + (row + r) * task.out_stride + n;
    for (int j = 0; j < outputs; ++j) out[j] = Vec::Sum(Vec::Load(panel.sums[r][j]));
  }
}

template <typename Format>
void MatmulFloat(const MatmulTask& task, int64_t begin, int64_t end) {
  FloatPanel panel;
  for (int64_t row = 0; row < task.row_count; row += kFloatGroup) {
    const int64_t left = task.row_count - row;
    const int rows = static_cast<int>(left < kFloatGroup ? left : kFloatGroup);
    for (int64_t n = begin; n < end; n += kFloatPanel) {
      const int outputs = static_cast<int>(end - n < kFloatPanel ? end - n : kFloatPanel);
      FloatOutputs<Format>(task, n, outputs, row, rows, panel);
    }
  }
}

}  // namespace
}  // namespace mooring::MOORING_ISA

#endif  // MOORING_KERNELS_CPU_MATMUL_FLOAT_INL_H_
