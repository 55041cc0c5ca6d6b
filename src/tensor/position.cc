#include "tensor/position.h"

#include <cmath>

namespace mooring {

RotaryTable::RotaryTable(const RotarySpec& spec, int32_t turn_count)
    : turn_count_(turn_count),
      half_dim_(spec.rotary_dim / 2),
      values_(static_cast<size_t>(turn_count) * static_cast<size_t>(spec.rotary_dim)) {
  for (int i = 0; i < half_dim_; ++i) {
    double frequency = std::pow(spec.base, -2.0 * i / spec.rotary_dim) / spec.scale;
    if (!spec.pair_divisors.empty()) {
      frequency /= static_cast<double>(spec.pair_divisors[static_cast<size_t>(i)]);
    }
    for (int32_t turn = 0; turn < turn_count; ++turn) {
      float* row = values_.data() + RowOffset(turn);
      row[i] = static_cast<float>(std::cos(turn * frequency));
      row[half_dim_ + i] = static_cast<float>(std::sin(turn * frequency));
    }
  }
}

}  // namespace mooring
