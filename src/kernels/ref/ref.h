// The reference kernels: plain C++, one file per function, written to be read. They are the oracle
// of every other table and run where no faster one does. kernels.h says what each computes.
//
// Thread rule: as kernels.h.
#ifndef MOORING_KERNELS_REF_REF_H_
#define MOORING_KERNELS_REF_REF_H_

#include "kernels/kernels.h"

namespace mooring::ref {

// Everything but the formats, which kernels/formats.cc adds.
extern const Kernels kOperations;

extern const FormatKernels kF32;
extern const FormatKernels kF16;
extern const FormatKernels kBF16;
extern const FormatKernels kQ8_0;
extern const FormatKernels kQ4_0;
extern const FormatKernels kQ4_1;

// One block of a quantised format as integers: item i is items[i] * scale + minimum.
struct IntegerBlock {
  int items[kBlockItems];
  float scale;
  float minimum;
};

// NOLINTBEGIN(readability-identifier-naming): formats keep their names.
IntegerBlock UnpackQ8_0(const std::byte* bytes);
IntegerBlock UnpackQ4_0(const std::byte* bytes);
IntegerBlock UnpackQ4_1(const std::byte* bytes);

void DequantizeF32(const std::byte* row, int64_t count, float* out);
void DequantizeF16(const std::byte* row, int64_t count, float* out);
void DequantizeBF16(const std::byte* row, int64_t count, float* out);
void DequantizeQ8_0(const std::byte* row, int64_t count, float* out);
void DequantizeQ4_0(const std::byte* row, int64_t count, float* out);
void DequantizeQ4_1(const std::byte* row, int64_t count, float* out);
// NOLINTEND(readability-identifier-naming)

void RmsNorm(const float* x, const float* weight, float epsilon, int64_t count, float* out);
void LayerNorm(const float* x, const float* weight, const float* bias, float epsilon, int64_t count,
               float* out);
void Add(const float* y, int64_t count, float* x);
void SwiGlu(const float* gate, const float* up, int64_t count, float* out);
void Gelu(const float* x, int64_t count, float* out);
void Softmax(int64_t count, float* x);
void QuantizeInt8(const float* x, int64_t count, Int8Block* blocks);
void QuantizeInt16(const float* x, int64_t count, Int16Block* blocks);
void RoundRow(DType dtype, const float* x, int64_t count, float* out);
int64_t ArgMax(const float* x, int64_t count);
double LogSumExp(const float* x, int64_t count);
void Append(const PageLayout& layout, const RotaryTable* rotary, int slot, const float* key,
            const float* value, std::byte* page);
void AttendPages(const AttendTask& task, int64_t page_begin, int64_t page_end, float* states,
                 float* scratch);
void MergeAttention(const float* from, int head_dim, float* into);
void FinishAttention(const float* state, int head_dim, float* out);

}  // namespace mooring::ref

#endif  // MOORING_KERNELS_REF_REF_H_
