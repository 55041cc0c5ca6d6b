// The x86 tables. Both come from the same bodies (the *-inl.h files of this folder), written over
// a thin vector type that each instruction set supplies.
//
// The files built for a newer instruction set use no shared inline function and no std template: an
// out-of-line copy of one could win at link time and crash an older machine
// (tools/check_isa_symbols.sh looks for such copies).
//
// Thread rule: as kernels.h.
#ifndef MOORING_KERNELS_CPU_CPU_H_
#define MOORING_KERNELS_CPU_CPU_H_

#include "kernels/kernels.h"

namespace mooring::avx2 {

extern const Kernels kOperations;
extern const FormatKernels kF32;
extern const FormatKernels kF16;
extern const FormatKernels kBF16;
extern const FormatKernels kQ8_0;
extern const FormatKernels kQ4_0;
extern const FormatKernels kQ4_1;

}  // namespace mooring::avx2

namespace mooring::avx512 {

extern const Kernels kOperations;
extern const FormatKernels kF32;
extern const FormatKernels kF16;
extern const FormatKernels kBF16;
extern const FormatKernels kQ8_0;
extern const FormatKernels kQ4_0;
extern const FormatKernels kQ4_1;

}  // namespace mooring::avx512

#endif  // MOORING_KERNELS_CPU_CPU_H_
