#include "tensor/dtype.h"

#include <array>

namespace mooring {

const DTypeInfo& InfoOf(DType dtype) {
  static constexpr std::array<DTypeInfo, kDTypeCount> kInfos = {{
      {DType::kF32, "F32", 1, 4},
      {DType::kF16, "F16", 1, 2},
      {DType::kBF16, "BF16", 1, 2},
      {DType::kQ8_0, "Q8_0", kBlockItems, sizeof(BlockQ8_0)},
      {DType::kQ4_0, "Q4_0", kBlockItems, sizeof(BlockQ4_0)},
      {DType::kQ4_1, "Q4_1", kBlockItems, sizeof(BlockQ4_1)},
  }};
  return kInfos[static_cast<size_t>(dtype)];
}

}  // namespace mooring
