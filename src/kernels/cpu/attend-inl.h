// Attention over pages, fused: per page, the query is turned to meet it, all its slots are scored
// in one pass over its keys for all query heads of the group, and the values are added up.
//
// A row's state depends on its own pages only. Halves and bytes are widened either while they are
// read (one row) or once per page (more rows); widening is exact, so both give the same bits. The
// scales of bytes multiply the sums of a block's products, and the weights of its values.
#ifndef MOORING_KERNELS_CPU_ATTEND_INL_H_
#define MOORING_KERNELS_CPU_ATTEND_INL_H_

#include "kernels/cpu/math-inl.h"
#include "kernels/cpu/page_sight.h"
#include "kernels/cpu/turn-inl.h"
#include "kernels/kernels.h"

namespace mooring::MOORING_ISA {
namespace {  // NOLINT(google-build-namespaces): a copy per instruction set

static_assert(kPageSlots % Vec::kLanes == 0);
constexpr int kSlotVectors = kPageSlots / Vec::kLanes;  // vectors in one line of keys
constexpr int kHeadTile = 4;                            // query heads that share a pass

// How the items of a page become floats. kScaled: per block of kBlockItems; else a head is one
// block. Widened: the same once they are floats.
struct FloatItems {
  using Item = float;
  using Widened = FloatItems;
  static constexpr bool kScaled = false;
  [[gnu::always_inline]] static inline Vec::F Load(const Item* p) { return Vec::Load(p); }
  [[gnu::always_inline]] static inline Vec::F Load(const Item* p, int count) {
    return Vec::Load(p, count);
  }
};

struct HalfItems {
  using Item = uint16_t;
  using Widened = FloatItems;
  static constexpr bool kScaled = false;
  [[gnu::always_inline]] static inline Vec::F Load(const Item* p) { return Vec::LoadHalf(p); }
  [[gnu::always_inline]] static inline Vec::F Load(const Item* p, int count) {
    alignas(32) Item padded[Vec::kLanes] = {};
    for (int i = 0; i < count; ++i) padded[i] = p[i];
    return Vec::LoadHalf(padded);
  }
};

struct ScaledFloatItems : FloatItems {
  using Widened = ScaledFloatItems;
  static constexpr bool kScaled = true;
};

struct ByteItems {
  using Item = int8_t;
  using Widened = ScaledFloatItems;
  static constexpr bool kScaled = true;
  [[gnu::always_inline]] static inline Vec::F Load(const Item* p) { return Vec::LoadInt8(p); }
  [[gnu::always_inline]] static inline Vec::F Load(const Item* p, int count) {
    alignas(16) Item padded[Vec::kLanes] = {};
    for (int i = 0; i < count; ++i) padded[i] = p[i];
    return Vec::LoadInt8(padded);
  }
};

// One page as its row meets it. `keys` [head_dim, kPageSlots], `values` [kPageSlots, head_dim],
// scales [blocks, kPageSlots] where the items are scaled.
template <typename Items>
struct PageView {
  const typename Items::Item* keys;
  const typename Items::Item* values;
  const uint16_t* key_scales;
  const uint16_t* value_scales;
  const std::byte* next;  // the page after this one, to be fetched meanwhile; may be null
  int64_t next_bytes;     // of its keys, and of its values
  int head_dim;
  int first;  // visible slots
  int last;
};

// The end of the block that starts at item `begin`.
template <typename Items>
[[gnu::always_inline]] inline int BlockEnd(const PageView<Items>& page, int begin) {
  if (!Items::kScaled || page.head_dim - begin < kBlockItems) return page.head_dim;
  return begin + kBlockItems;
}

[[gnu::always_inline]] inline void Fetch(const std::byte* p, int64_t bytes) {
  for (int64_t i = 0; i < bytes; i += 64) __builtin_prefetch(p + i);
}

// dots[g][slot] = turned query g . key of the slot, over items [begin, end).
template <typename Items, int kHeads>
[[gnu::always_inline]] inline void Dot(const PageView<Items>& page, const float* queries, int begin,
                                       int end, Vec::F (&dots)[kHeads][kSlotVectors]) {
  // Chains of additions per score: enough, with the heads, to hide the latency of an addition.
  constexpr int kChains = kHeads == 1 ? 4 : (kHeads == 4 ? 1 : 2);
  Vec::F sum[kChains][kHeads][kSlotVectors];
  for (int c = 0; c < kChains; ++c) {
    for (int g = 0; g < kHeads; ++g) {
      for (int v = 0; v < kSlotVectors; ++v) sum[c][g][v] = Vec::Zero();
    }
  }
  const auto* keys = page.keys + begin * kPageSlots;
  int d = begin;
  for (; d + kChains <= end; d += kChains, keys += kChains * kPageSlots) {
    for (int c = 0; c < kChains; ++c) {
      Vec::F key[kSlotVectors];
      for (int v = 0; v < kSlotVectors; ++v) {
        key[v] = Items::Load(keys + c * kPageSlots + v * Vec::kLanes);
      }
      for (int g = 0; g < kHeads; ++g) {
        const Vec::F query = Vec::Set(queries[g * page.head_dim + d + c]);
        for (int v = 0; v < kSlotVectors; ++v) {
          sum[c][g][v] = Vec::Fma(query, key[v], sum[c][g][v]);
        }
      }
    }
  }
  for (; d < end; ++d, keys += kPageSlots) {
    for (int g = 0; g < kHeads; ++g) {
      const Vec::F query = Vec::Set(queries[g * page.head_dim + d]);
      for (int v = 0; v < kSlotVectors; ++v) {
        sum[0][g][v] = Vec::Fma(query, Items::Load(keys + v * Vec::kLanes), sum[0][g][v]);
      }
    }
  }
  for (int g = 0; g < kHeads; ++g) {
    for (int v = 0; v < kSlotVectors; ++v) {
      dots[g][v] = sum[0][g][v];
      for (int c = 1; c < kChains; ++c) dots[g][v] = Vec::Add(dots[g][v], sum[c][g][v]);
    }
  }
}

// scores[g][slot] = turned query g . key of the slot, -infinity where it is not visible.
template <typename Items, int kHeads>
void Score(const PageView<Items>& page, const float* queries, float* scores) {
  Vec::F score[kHeads][kSlotVectors];
  if constexpr (Items::kScaled) {
    for (int g = 0; g < kHeads; ++g) {
      for (int v = 0; v < kSlotVectors; ++v) score[g][v] = Vec::Zero();
    }
    const uint16_t* scales = page.key_scales;
    for (int d = 0; d < page.head_dim; d += kBlockItems, scales += kPageSlots) {
      Vec::F dots[kHeads][kSlotVectors];
      Dot<Items, kHeads>(page, queries, d, BlockEnd(page, d), dots);
      for (int v = 0; v < kSlotVectors; ++v) {
        const Vec::F scale = Vec::LoadHalf(scales + v * Vec::kLanes);
        for (int g = 0; g < kHeads; ++g) score[g][v] = Vec::Fma(dots[g][v], scale, score[g][v]);
      }
    }
  } else {
    Dot<Items, kHeads>(page, queries, 0, page.head_dim, score);
  }
  for (int v = 0; v < kSlotVectors; ++v) {
    const Vec::Mask visible =
        Vec::LaneRange(page.first - v * Vec::kLanes, page.last - v * Vec::kLanes);
    for (int g = 0; g < kHeads; ++g) {
      Vec::Store(scores + g * kPageSlots + v * Vec::kLanes,
                 Vec::Select(visible, score[g][v], Vec::Set(-kInfinity)));
    }
  }
}

// Turns the scores of all heads into weights, in place, updates the largest score and the sum of
// each state, and sets what its values so far must be multiplied by. One loop per step, so that the
// heads' long chains of operations overlap.
template <int kHeads>
void Weigh(float* scores, int64_t state_stride, float* states, float* shrink) {
  Vec::F score[kHeads][kSlotVectors];
  float page_max[kHeads];
  for (int g = 0; g < kHeads; ++g) {
    for (int v = 0; v < kSlotVectors; ++v) {
      score[g][v] = Vec::Load(scores + g * kPageSlots + v * Vec::kLanes);
    }
    Vec::F most = score[g][0];
    for (int v = 1; v < kSlotVectors; ++v) most = Vec::Max(most, score[g][v]);
    page_max[g] = Vec::Largest(most);
  }
  for (int g = 0; g < kHeads; ++g) {
    float& max = states[g * state_stride];
    shrink[g] = 1.0F;
    if (page_max[g] > max) {
      shrink[g] = ExpScalar(max - page_max[g]);
      max = page_max[g];
    }
  }
  for (int g = 0; g < kHeads; ++g) {
    const Vec::F max = Vec::Set(states[g * state_stride]);
    for (int v = 0; v < kSlotVectors; ++v) score[g][v] = Exp(Vec::Sub(score[g][v], max));
  }
  for (int g = 0; g < kHeads; ++g) {
    Vec::F total = score[g][0];
    for (int v = 0; v < kSlotVectors; ++v) {
      Vec::Store(scores + g * kPageSlots + v * Vec::kLanes, score[g][v]);
      if (v > 0) total = Vec::Add(total, score[g][v]);
    }
    float& sum = states[g * state_stride + 1];
    sum = sum * shrink[g] + Vec::Sum(total);
  }
}

// values of kHeads states += weights * values of the visible slots, for items [d, d + width).
// `kVectors` whole vectors, or one partial of `rest` lanes when kVectors is 0.
template <typename Items, int kHeads, int kVectors>
[[gnu::always_inline]] inline void AddValues(const PageView<Items>& page, const float* weights,
                                             const float* shrink, int d, int rest, float* states) {
  constexpr int kWidth = kVectors == 0 ? 1 : kVectors;
  const int64_t stride = 2 + page.head_dim;
  Vec::F sum[kHeads][kWidth];
  for (int g = 0; g < kHeads; ++g) {
    const float* old = states + g * stride + 2 + d;
    for (int v = 0; v < kWidth; ++v) {
      const Vec::F x = kVectors == 0 ? Vec::Load(old, rest) : Vec::Load(old + v * Vec::kLanes);
      sum[g][v] = Vec::Mul(x, Vec::Set(shrink[g]));
    }
  }
  const auto* values = page.values + page.first * page.head_dim + d;
  for (int slot = page.first; slot <= page.last; ++slot, values += page.head_dim) {
    Vec::F weight[kHeads];
    for (int g = 0; g < kHeads; ++g) weight[g] = Vec::Set(weights[g * kPageSlots + slot]);
    for (int v = 0; v < kWidth; ++v) {
      const Vec::F value =
          kVectors == 0 ? Items::Load(values, rest) : Items::Load(values + v * Vec::kLanes);
      for (int g = 0; g < kHeads; ++g) sum[g][v] = Vec::Fma(weight[g], value, sum[g][v]);
    }
  }
  for (int g = 0; g < kHeads; ++g) {
    float* now = states + g * stride + 2 + d;
    if (kVectors == 0) {
      Vec::Store(now, sum[g][0], rest);
    } else {
      for (int v = 0; v < kWidth; ++v) Vec::Store(now + v * Vec::kLanes, sum[g][v]);
    }
  }
}

// The same for items [begin, end), which are of one block.
template <typename Items, int kHeads>
[[gnu::always_inline]] inline void AddBlock(const PageView<Items>& page, const float* weights,
                                            const float* shrink, int begin, int end,
                                            float* states) {
  // As many vectors as the registers hold for all heads, at most 64 items.
  constexpr int kMany = kHeads == 1                            ? 64 / Vec::kLanes
                        : kHeads == 4 && Vec::kRegisters == 16 ? 2
                                                               : 4;
  constexpr int kInBlock = kBlockItems / Vec::kLanes;
  constexpr int kWide = Items::kScaled && kMany > kInBlock ? kInBlock : kMany;
  int d = begin;
  for (; d + kWide * Vec::kLanes <= end; d += kWide * Vec::kLanes) {
    AddValues<Items, kHeads, kWide>(page, weights, shrink, d, 0, states);
  }
  for (; d + Vec::kLanes <= end; d += Vec::kLanes) {
    AddValues<Items, kHeads, 1>(page, weights, shrink, d, 0, states);
  }
  if (d < end) AddValues<Items, kHeads, 0>(page, weights, shrink, d, end - d, states);
}

// kHeads query heads of one row meet one page.
template <typename Items, int kHeads>
void AttendHeads(const PageView<Items>& page, const float* queries, float* weights, float* states) {
  if (page.next != nullptr) Fetch(page.next, page.next_bytes);
  Score<Items, kHeads>(page, queries, weights);
  if (page.next != nullptr) Fetch(page.next + page.next_bytes, page.next_bytes);
  float shrink[kHeads];
  Weigh<kHeads>(weights, 2 + page.head_dim, states, shrink);
  if constexpr (Items::kScaled) {
    const uint16_t* scales = page.value_scales;
    for (int d = 0; d < page.head_dim; d += kBlockItems, scales += kPageSlots) {
      alignas(64) float scaled[kHeads * kPageSlots];
      for (int v = 0; v < kSlotVectors; ++v) {
        const Vec::F scale = Vec::LoadHalf(scales + v * Vec::kLanes);
        for (int g = 0; g < kHeads; ++g) {
          const int64_t at = int64_t{g} * kPageSlots + v * Vec::kLanes;
          Vec::Store(scaled + at, Vec::Mul(Vec::Load(weights + at), scale));
        }
      }
      AddBlock<Items, kHeads>(page, scaled, shrink, d, BlockEnd(page, d), states);
    }
  } else {
    AddBlock<Items, kHeads>(page, weights, shrink, 0, page.head_dim, states);
  }
}

// All query heads of one row meet one page.
template <typename Items>
void AttendRow(PageView<Items> page, int group, const float* queries, float* weights,
               float* states) {
  for (int g = 0; g < group; g += kHeadTile) {
    const float* tile = queries + int64_t{g} * page.head_dim;
    float* tile_states = states + int64_t{g} * (2 + page.head_dim);
    switch (group - g) {
      case 1:
        AttendHeads<Items, 1>(page, tile, weights, tile_states);
        break;
      case 2:
        AttendHeads<Items, 2>(page, tile, weights, tile_states);
        break;
      case 3:
        AttendHeads<Items, 3>(page, tile, weights, tile_states);
        break;
      default:
        AttendHeads<Items, 4>(page, tile, weights, tile_states);
    }
    page.next = nullptr;
  }
}

struct AttendScratch {
  float* keys;     // [head_dim, kPageSlots]
  float* values;   // [kPageSlots, head_dim]
  float* queries;  // [group, head_dim]
  float* weights;  // [group, kPageSlots]
};

template <typename Items>
void Widen(const typename Items::Item* items, int64_t count, float* out) {
  for (int64_t i = 0; i < count; i += Vec::kLanes) {  // a multiple of kPageSlots
    Vec::Store(out + i, Items::Load(items + i));
  }
}

// One page of the task, for every row that sees it.
template <typename Items>
void AttendPage(const AttendTask& task, const PageRef& page, const std::byte* next,
                const AttendScratch& scratch, float* states) {
  using Item = typename Items::Item;
  using Widened = typename Items::Widened;
  const int head_dim = task.layout.head_dim;
  const int64_t item_count = int64_t{kPageSlots} * head_dim;
  const auto key_bytes = static_cast<int64_t>(task.layout.key_bytes());
  const std::byte* key_scales = page.data + task.layout.scales_offset();
  PageView<Items> narrow = {
      .keys = reinterpret_cast<const Item*>(page.data),
      .values = reinterpret_cast<const Item*>(page.data + key_bytes),
      .key_scales = reinterpret_cast<const uint16_t*>(key_scales),
      .value_scales = reinterpret_cast<const uint16_t*>(key_scales + key_bytes),
      .next = next,
      .next_bytes = key_bytes,
      .head_dim = head_dim,
      .first = 0,
      .last = -1};
  const bool widen = sizeof(Item) < sizeof(float) && task.row_count > 1;
  bool widened = false;
  for (int row = 0; row < task.row_count; ++row) {
    const PageSight sight = SightOf(task, page, row);
    if (sight.first > sight.last) continue;
    narrow.first = sight.first;
    narrow.last = sight.last;
    TurnHeads(task.queries + row * task.query_stride, task.group, head_dim, sight.turn, task.scale,
              scratch.queries);
    float* row_states = states + int64_t{row} * task.group * (2 + head_dim);
    if (widen) {
      if (!widened) {
        Widen<Items>(narrow.keys, item_count, scratch.keys);
        Widen<Items>(narrow.values, item_count, scratch.values);
        widened = true;
      }
      AttendRow<Widened>({scratch.keys, scratch.values, narrow.key_scales, narrow.value_scales,
                          nullptr, 0, head_dim, sight.first, sight.last},
                         task.group, scratch.queries, scratch.weights, row_states);
    } else {
      if (task.row_count > 1) narrow.next = nullptr;
      AttendRow<Items>(narrow, task.group, scratch.queries, scratch.weights, row_states);
    }
  }
}

void AttendPages(const AttendTask& task, int64_t page_begin, int64_t page_end, float* states,
                 float* scratch) {
  const int head_dim = task.layout.head_dim;
  const int64_t item_count = int64_t{kPageSlots} * head_dim;
  const AttendScratch parts = {scratch, scratch + item_count, scratch + 2 * item_count,
                               scratch + 2 * item_count + int64_t{task.group} * head_dim};
  const int64_t state_floats = 2 + head_dim;
  for (int64_t i = 0; i < int64_t{task.row_count} * task.group; ++i) {
    float* state = states + i * state_floats;
    state[0] = -kInfinity;
    __builtin_memset(state + 1, 0, sizeof(float) * static_cast<size_t>(1 + head_dim));
  }
  for (int64_t p = page_begin; p < page_end; ++p) {
    const std::byte* next = p + 1 < page_end ? task.pages[p + 1].data : nullptr;
    switch (task.layout.dtype) {
      case DType::kF32:
        AttendPage<FloatItems>(task, task.pages[p], next, parts, states);
        break;
      case DType::kQ8_0:
        AttendPage<ByteItems>(task, task.pages[p], next, parts, states);
        break;
      default:
        AttendPage<HalfItems>(task, task.pages[p], next, parts, states);
    }
  }
}

// into[i] = into[i] * keep + from[i] * take, i in [0, count).
void Blend(const float* from, float take, float keep, int64_t count, float* into) {
  const Vec::F takes = Vec::Set(take);
  const Vec::F keeps = Vec::Set(keep);
  int64_t i = 0;
  for (; i + Vec::kLanes <= count; i += Vec::kLanes) {
    const Vec::F kept = Vec::Mul(Vec::Load(into + i), keeps);
    Vec::Store(into + i, Vec::Fma(Vec::Load(from + i), takes, kept));
  }
  if (i < count) {
    const int rest = static_cast<int>(count - i);
    const Vec::F kept = Vec::Mul(Vec::Load(into + i, rest), keeps);
    Vec::Store(into + i, Vec::Fma(Vec::Load(from + i, rest), takes, kept), rest);
  }
}

void MergeAttention(const float* from, int head_dim, float* into) {
  if (from[1] == 0.0F) return;  // has seen nothing; exp(-inf - -inf) would be NaN
  if (into[1] == 0.0F) {
    __builtin_memcpy(into, from, sizeof(float) * static_cast<size_t>(2 + head_dim));
    return;
  }
  const float max = from[0] > into[0] ? from[0] : into[0];
  const float take = ExpScalar(from[0] - max);
  const float keep = ExpScalar(into[0] - max);
  into[0] = max;
  Blend(from + 1, take, keep, int64_t{head_dim} + 1, into + 1);
}

void FinishAttention(const float* state, int head_dim, float* out) {
  if (state[1] == 0.0F) {
    __builtin_memset(out, 0, sizeof(float) * static_cast<size_t>(head_dim));
    return;
  }
  const Vec::F sum = Vec::Set(state[1]);
  int d = 0;
  for (; d + Vec::kLanes <= head_dim; d += Vec::kLanes) {
    Vec::Store(out + d, Vec::Div(Vec::Load(state + 2 + d), sum));
  }
  if (d < head_dim) {
    const int rest = head_dim - d;
    Vec::Store(out + d, Vec::Div(Vec::Load(state + 2 + d, rest), sum), rest);
  }
}

}  // namespace
}  // namespace mooring::MOORING_ISA

#endif  // MOORING_KERNELS_CPU_ATTEND_INL_H_
