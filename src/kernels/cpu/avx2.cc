// Built with -mavx2 -mfma -mf16c -mbmi2 (kernels.cmake).
#define MOORING_ISA avx2
#include "kernels/cpu/vec_avx2-inl.h"

// The bodies, over the Vec above.
#include "kernels/cpu/table-inl.h"
