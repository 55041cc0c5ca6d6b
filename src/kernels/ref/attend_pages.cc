#include <cmath>
#include <cstring>
#include <limits>

#include "kernels/ref/ref.h"

namespace mooring::ref {
namespace {

float ReadHalf(const std::byte* halves, int64_t index) {
  uint16_t half;
  std::memcpy(&half, halves + index * 2, 2);
  return FloatFromHalf(half);
}

// Item d of the key or value in `slot`, which stands at `index` of `items`.
float ReadItem(const PageLayout& layout, const std::byte* items, int64_t index, int d, int slot) {
  if (layout.dtype == DType::kF16) return ReadHalf(items, index);
  if (layout.dtype == DType::kQ8_0) {
    const float scale =
        ReadHalf(items + layout.scales_offset(), int64_t{d / kBlockItems} * kPageSlots + slot);
    return static_cast<float>(static_cast<int8_t>(items[index])) * scale;
  }
  float value;
  std::memcpy(&value, items + index * 4, 4);
  return value;
}

// Adds the visible slots of one page to the state [2 + head_dim] of one row and query head.
void AttendPage(const PageLayout& layout, const PageRef& page, SlotRange slots, const float* query,
                float* state) {
  const std::byte* keys = page.data;
  const std::byte* values = page.data + layout.key_bytes();
  float& max = state[0];
  float& sum = state[1];
  float* weighted = state + 2;
  for (int32_t slot = slots.first; slot <= slots.last; ++slot) {
    float score = 0.0F;
    for (int d = 0; d < layout.head_dim; ++d) {
      score += query[d] * ReadItem(layout, keys, int64_t{d} * kPageSlots + slot, d, slot);
    }
    if (score > max) {
      const float shrink = std::exp(max - score);
      sum *= shrink;
      for (int d = 0; d < layout.head_dim; ++d) weighted[d] *= shrink;
      max = score;
    }
    const float weight = std::exp(score - max);
    sum += weight;
    for (int d = 0; d < layout.head_dim; ++d) {
      const int64_t item = int64_t{slot} * layout.head_dim + d;
      weighted[d] += weight * ReadItem(layout, values, item, d, slot);
    }
  }
}

}  // namespace

void AttendPages(const AttendTask& task, int64_t page_begin, int64_t page_end, float* states,
                 float* /*scratch*/) {
  const int head_dim = task.layout.head_dim;
  const int half_dim = task.rotary != nullptr ? task.rotary->half_dim() : 0;
  for (int row = 0; row < task.row_count; ++row) {
    const RowPlace& place = task.places[row];
    for (int g = 0; g < task.group; ++g) {
      float* state = states + (int64_t{row} * task.group + g) * AttentionStateFloats(head_dim);
      state[0] = -std::numeric_limits<float>::infinity();
      for (int i = 1; i < 2 + head_dim; ++i) state[i] = 0.0F;
      const float* query = task.queries + row * task.query_stride + int64_t{g} * head_dim;
      for (int64_t p = page_begin; p < page_end; ++p) {
        const PageRef& page = task.pages[p];
        const SlotRange slots = VisibleSlots(page, place);
        if (slots.empty()) continue;
        float turned[kMaxHeadDim];
        for (int d = 0; d < head_dim; ++d) turned[d] = query[d] * task.scale;
        if (half_dim > 0) {
          const int32_t turn = QueryTurn(place.query, page.query_cap, page.base);
          RotateHead(turned, task.rotary->cosines(turn), task.rotary->sines(turn), half_dim);
        }
        AttendPage(task.layout, page, slots, turned, state);
      }
    }
  }
}

}  // namespace mooring::ref
