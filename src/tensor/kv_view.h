// What attention sees of a conversation's memory: plain arrays, no owner, no policy.
//
// A page holds kPageSlots tokens of ONE kv head of ONE layer and knows neither its conversation nor
// its position. Inside a page, keys come first, transposed so that one line holds the same item of
// all slots, then values, one line per slot:
//   keys   [head_dim, kPageSlots]   rotated by slot
//   values [kPageSlots, head_dim]
//
// Thread rule: plain values; the memory behind them is written only by Append, for the rows of the
// running step, and read by Attend after that.
#ifndef MOORING_TENSOR_KV_VIEW_H_
#define MOORING_TENSOR_KV_VIEW_H_

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <span>

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

// The element type and sizes of the pages of one head.
struct PageLayout {
  DType dtype = DType::kF16;  // kF32 or kF16
  int head_dim = 0;

  size_t element_bytes() const { return static_cast<size_t>(InfoOf(dtype).block_bytes); }
  size_t key_bytes() const { return static_cast<size_t>(head_dim) * kPageSlots * element_bytes(); }
  size_t page_bytes() const { return 2 * key_bytes(); }
};

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
