// What attention sees of a conversation's memory: plain arrays, no owner, no policy.
//
// A page holds kPageSlots tokens of ONE kv head of ONE layer and knows neither its conversation nor
// its position. Inside a page, keys come first, transposed so that one line holds the same item of
// all slots, then values, one line per slot:
//   keys   [head_dim, kPageSlots]   rotated by slot
//   values [kPageSlots, head_dim]
// Bytes are scaled per token and 32 items of its head: behind the keys, and again behind the
// values, stand the scales, halves [blocks, kPageSlots]. Item = byte * scale of its block and slot.
// The scale belongs to one token, so what a page holds does not depend on how it was filled.
//
// Thread rule: plain values; the memory behind them is written only by Append, for the rows of the
// running step, and read by Attend after that.
#ifndef MOORING_TENSOR_KV_VIEW_H_
#define MOORING_TENSOR_KV_VIEW_H_

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <span>
#include <string_view>

#include "tensor/dtype.h"
#include "tensor/position.h"

namespace mooring {

// Tokens per page. A multiple of 16: one line of keys fills whole vectors.
inline constexpr int kPageSlots = 16;

// Attention adds up pages in runs: pages whose ordinals lie in the same group of this many form one
// partial sum, and partial sums merge in order. Runs are cut by ordinal, which is a function of the
// log, so neither chunking nor the number of threads can change a bit. 32 pages of 16 slots are
// enough work (some 10 us) to give to another thread, and 4,096 tokens still give 8 runs.
inline constexpr uint32_t kPagesPerRun = 32;

// A log that is longer by this many tokens behind its anchors has its pages in runs cut alike.
inline constexpr int64_t kAlikeTokens = int64_t{kPagesPerRun} * kPageSlots;

// The element type and sizes of the pages of one head. Always inlined, as in tensor/dtype.h.
struct PageLayout {
  DType dtype = DType::kF16;  // kF32, kF16 or kQ8_0: bytes with scales
  int head_dim = 0;

  // Items of a token under one scale: 32, fewer in the last block of a head of another size.
  [[gnu::always_inline]] int scale_blocks() const {
    return dtype == DType::kQ8_0 ? (head_dim + kBlockItems - 1) / kBlockItems : 0;
  }
  [[gnu::always_inline]] size_t item_bytes() const {
    return dtype == DType::kF32 ? 4 : (dtype == DType::kF16 ? 2 : 1);
  }
  // From the first key to the keys' scales, and from the first value to the values' scales.
  [[gnu::always_inline]] size_t scales_offset() const {
    return static_cast<size_t>(head_dim) * kPageSlots * item_bytes();
  }
  [[gnu::always_inline]] size_t key_bytes() const {
    return scales_offset() + static_cast<size_t>(scale_blocks()) * kPageSlots * sizeof(uint16_t);
  }
  [[gnu::always_inline]] size_t page_bytes() const { return 2 * key_bytes(); }
};

// The types that pages may have, the smallest first, and what people call them.
inline constexpr DType kKeyValueTypes[] = {DType::kQ8_0, DType::kF16, DType::kF32};
constexpr std::string_view KeyValueName(DType dtype) {
  return dtype == DType::kF32 ? "f32" : (dtype == DType::kF16 ? "fp16" : "int8");
}

inline constexpr WindowPos kNoQueryCap = {INT32_MAX};

// One page as a row's head attends to it.
struct PageRef {
  std::byte* data = nullptr;
  WindowPos base;                     // window position of slot 0
  WindowPos query_cap = kNoQueryCap;  // the query is capped at this before it turns (anchors)
  uint32_t ordinal = 0;               // place in the conversation's life: groups pages into runs
  uint16_t used = kPageSlots;  // slots that may ever be seen; the last anchor page stays short
  bool ages = true;            // slots before a row's first_visible are hidden; false for anchors
};

// The slots of `page` that a row sees: [first, last], empty when first > last.
struct SlotRange {
  int32_t first;
  int32_t last;
  bool empty() const { return first > last; }
};

// The pages of one (layer, kv head), in order of their bases. Slots beyond a row's own position are
// not visible to it, whatever they hold.
struct KvHeadView {
  std::span<const PageRef> pages;
};

// All heads of a conversation: heads[layer * kv_head_count + head].
struct KvView {
  PageLayout layout;
  int kv_head_count = 0;
  std::span<const KvHeadView> heads;

  const KvHeadView& head(int layer, int kv_head) const {
    return heads[static_cast<size_t>(layer * kv_head_count + kv_head)];
  }
};

// Where one row stands in its conversation's window.
struct RowPlace {
  WindowPos query;          // its own position
  WindowPos first_visible;  // of pages that age, slots before this are not seen
  int pages_from_end = 1;   // its own page is pages[size - pages_from_end], in every head
  int slot = 0;             // and its slot there
};

// Which slots of `page` the row at `place` attends to.
inline SlotRange VisibleSlots(const PageRef& page, const RowPlace& place) {
  const int32_t first = page.ages ? std::max(0, place.first_visible - page.base) : 0;
  const int32_t last = std::min<int32_t>(page.used - 1, place.query - page.base);
  return {first, last};
}

}  // namespace mooring

#endif  // MOORING_TENSOR_KV_VIEW_H_
