// A borrowed array of weights: where it is, what it is made of, what shape it has.
//
// Never owns memory and never allocates; the owner (a ModelFile) outlives every view. Dimensions
// are listed slowest first: a matrix is [rows, columns], each row contiguous and stored as whole
// blocks.
//
// Thread rule: plain value.
#ifndef MOORING_TENSOR_TENSOR_VIEW_H_
#define MOORING_TENSOR_TENSOR_VIEW_H_

#include <array>
#include <cstddef>
#include <cstdint>

#include "tensor/dtype.h"

namespace mooring {

inline constexpr int kMaxRank = 4;

struct TensorView {
  const std::byte* data = nullptr;
  DType dtype = DType::kF32;
  int rank = 0;
  std::array<int64_t, kMaxRank> shape = {0, 0, 0, 0};  // slowest first, `rank` of them used

  bool empty() const { return data == nullptr; }
  // The length of one row, in items: the fastest dimension. REQUIRES: rank >= 1.
  int64_t columns() const { return shape[static_cast<size_t>(rank - 1)]; }
  // How many rows: the product of the other dimensions.
  int64_t rows() const {
    int64_t count = 1;
    for (int i = 0; i + 1 < rank; ++i) count *= shape[static_cast<size_t>(i)];
    return count;
  }
  int64_t row_bytes() const {
    const DTypeInfo& info = InfoOf(dtype);
    return columns() / info.block_items * info.block_bytes;
  }
  int64_t bytes() const { return rows() * row_bytes(); }
  const std::byte* row(int64_t index) const { return data + index * row_bytes(); }
};

}  // namespace mooring

#endif  // MOORING_TENSOR_TENSOR_VIEW_H_
