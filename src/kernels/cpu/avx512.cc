// Built with -mavx512f -mavx512bw -mavx512dq -mavx512vl and what avx2.cc has (kernels.cmake).
#define MOORING_ISA avx512
#include "kernels/cpu/vec_avx512-inl.h"

// The bodies, over the Vec above.
#include "kernels/cpu/table-inl.h"
