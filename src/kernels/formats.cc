#include "kernels/formats.h"

#include "kernels/cpu/cpu.h"
#include "kernels/ref/ref.h"

namespace mooring {

const std::array<FormatRow, kDTypeCount> kFormatRows = {{
    {DType::kF32, &ref::kF32, &avx2::kF32, &avx512::kF32},
    {DType::kF16, &ref::kF16, &avx2::kF16, &avx512::kF16},
    {DType::kBF16, &ref::kBF16, &avx2::kBF16, &avx512::kBF16},
    {DType::kQ8_0, &ref::kQ8_0, &avx2::kQ8_0, &avx512::kQ8_0},
    {DType::kQ4_0, &ref::kQ4_0, &avx2::kQ4_0, &avx512::kQ4_0},
    {DType::kQ4_1, &ref::kQ4_1, &avx2::kQ4_1, &avx512::kQ4_1},
}};

Kernels WithFormats(const Kernels& operations, const FormatKernels* FormatRow::*column) {
  Kernels table = operations;
  for (const FormatRow& row : kFormatRows) {
    table.formats[static_cast<size_t>(row.dtype)] = *(row.*column);
  }
  return table;
}

}  // namespace mooring
