// The table of one instruction set. Included last by avx2.cc and avx512.cc.
#ifndef MOORING_KERNELS_CPU_TABLE_INL_H_
#define MOORING_KERNELS_CPU_TABLE_INL_H_

#include "kernels/cpu/append-inl.h"
#include "kernels/cpu/attend-inl.h"
#include "kernels/cpu/cpu.h"
#include "kernels/cpu/formats-inl.h"
#include "kernels/cpu/logits-inl.h"
#include "kernels/cpu/matmul_float-inl.h"
#include "kernels/cpu/matmul_integer-inl.h"
#include "kernels/cpu/rows-inl.h"

#define MOORING_STRING_(x) #x
#define MOORING_STRING(x) MOORING_STRING_(x)

namespace mooring::MOORING_ISA {
namespace {  // NOLINT(google-build-namespaces): a copy per instruction set

template <typename Format>
constexpr FormatKernels OfBlocks() {
  return {&Dequantize<Format>, &MatmulFloat<Format>, &MatmulInteger<Format, int8_t>,
          &MatmulInteger<Format, int16_t>};
}

}  // namespace

const Kernels kOperations = {
    .name = {MOORING_STRING(MOORING_ISA), sizeof(MOORING_STRING(MOORING_ISA)) - 1},
    .formats = {},
    .RmsNorm = &RmsNorm,
    .LayerNorm = &LayerNorm,
    .Add = &Add,
    .SwiGlu = &SwiGlu,
    .Gelu = &Gelu,
    .Softmax = &Softmax,
    .QuantizeInt8 = &QuantizeInt8,
    .QuantizeInt16 = &QuantizeInt16,
    .RoundRow = &RoundRow,
    .ArgMax = &ArgMax,
    .LogSumExp = &LogSumExp,
    .Append = &Append,
    .AttendPages = &AttendPages,
    .MergeAttention = &MergeAttention,
    .FinishAttention = &FinishAttention};

const FormatKernels kF32 = {&Dequantize<F32>, &MatmulFloat<F32>};
const FormatKernels kF16 = {&Dequantize<F16>, &MatmulFloat<F16>};
const FormatKernels kBF16 = {&Dequantize<BF16>, &MatmulFloat<BF16>};
const FormatKernels kQ8_0 = OfBlocks<Q8_0>();
const FormatKernels kQ4_0 = OfBlocks<Q4_0>();
const FormatKernels kQ4_1 = OfBlocks<Q4_1>();

}  // namespace mooring::MOORING_ISA

#endif  // MOORING_KERNELS_CPU_TABLE_INL_H_
