// The weight formats: what each instruction set can do with each of them. A new format is one row
// of the table in formats.cc and the functions that the row names.
//
// Thread rule: constants.
#ifndef MOORING_KERNELS_FORMATS_H_
#define MOORING_KERNELS_FORMATS_H_

#include <array>

#include "kernels/kernels.h"

namespace mooring {

struct FormatRow {
  DType dtype;
  const FormatKernels* ref;
  const FormatKernels* avx2;
  const FormatKernels* avx512;
};

// One row per DType, in its order.
extern const std::array<FormatRow, kDTypeCount> kFormatRows;

// `operations` with the formats of one column: a complete table.
Kernels WithFormats(const Kernels& operations, const FormatKernels* FormatRow::*column);

}  // namespace mooring

#endif  // MOORING_KERNELS_FORMATS_H_
