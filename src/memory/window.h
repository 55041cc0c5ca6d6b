// What a conversation attends to now: per (layer, kv head) the ordered pages, and the only owner of
// their base positions.
//
// Layout. The first `anchors` tokens fill pages of their own; the last of these is never filled
// further. Every later token goes to the page of its log index: page k behind the anchors holds
// anchors + k * kPageSlots and the kPageSlots - 1 after it. So what a page holds, and its ordinal,
// are functions of the log alone. Held pages are laid without gaps from position 0 on.
//
// The exact rule (docs/memory.md): with R = capacity - anchors - 1, the row at log index t sees key
// j when j < anchors or t - R <= j <= t, at distance t - j, except that the distance to anchors
// stops growing at anchors + R. `expire_by_page` rounds t - R up to the first slot of a page.
//
// A step is: Propose (Policy), Apply, Extend, run the rows, Commit. All storage is reserved by the
// constructor: none of these allocates.
//
// Thread rule: the engine's thread only.
#ifndef MOORING_MEMORY_WINDOW_H_
#define MOORING_MEMORY_WINDOW_H_

#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "base/result.h"
#include "memory/page_pool.h"
#include "memory/policy.h"
#include "tensor/kv_view.h"

namespace mooring {

// How many pages one conversation may hold, over all `head_count` = layers x kv heads, when a step
// has at most `step_rows` rows of it.
int64_t WindowPageBound(const WindowShape& shape, int head_count, int step_rows);

// The largest turn (see position.h) that a row of such a window can ask for, plus one.
int32_t WindowTurnCount(const WindowShape& shape);

// Whether the numbers make sense: 0 <= anchors, capacity >= anchors + 2. kUsage otherwise.
Status CheckWindowShape(const WindowShape& shape);

class Window {
 public:
  // REQUIRES: a checked shape; a pool whose pages have layout.page_bytes(), which outlives this.
  Window(const WindowShape& shape, const PageLayout& layout, int layer_count, int kv_head_count,
         int max_step_rows, PagePool* pool);
  ~Window();
  Window(Window&& other) noexcept;
  Window& operator=(Window&&) = delete;
  Window(const Window&) = delete;
  Window& operator=(const Window&) = delete;

  const WindowShape& shape() const { return shape_; }
  const PageLayout& layout() const { return layout_; }
  // Tokens read so far: the log index of the next one.
  LogIndex next() const { return next_; }
  // Tokens that the last row read attended to, itself included.
  int32_t attended() const;
  int64_t held_pages() const;

  WindowFacts Facts() const { return {shape_, next_, facts_}; }
  void Apply(const Plan& plan);

  // Takes the pages that the next `row_count` tokens need, and writes where each of them stands
  // into `places` [row_count]. False, with nothing changed, when the pool has too few. REQUIRES:
  // row_count in [1, max_step_rows]; no Extend without a Commit in between.
  bool Extend(int row_count, std::span<RowPlace> places);
  // The rows of the last Extend have been computed and stored.
  void Commit();
  // How many tokens can be taken back so that every row to come still finds what it may see: at
  // least kRewindSlots (or all) behind the last plan.
  int64_t RewindBound() const;
  // Takes back the last `count` tokens. REQUIRES: count <= RewindBound().
  void Rewind(int count);

  // Valid until the next change of the window.
  KvView View() const { return {layout_, kv_head_count_, views_}; }

  // A window with the same content that shares all pages. Whichever of the two first writes into
  // the page being filled copies it then.
  Window Fork() const;

  // The content as bytes: enough to go on exactly, in another process too. Unused slots are zeros.
  void AppendSnapshot(std::string* out) const;
  // Replaces an empty window's content. On any error the window stays empty. The shape, layout and
  // head counts must be those of the saved one: kFailed with both otherwise.
  Status RestoreSnapshot(std::span<const std::byte> bytes);

 private:
  struct Head {
    std::vector<PageRef> refs;     // anchors first, then oldest to newest
    std::vector<PageIndex> pages;  // the pool's names of the same
  };

  int anchor_page_count() const { return (shape_.anchors + kPageSlots - 1) / kPageSlots; }
  // Anchor pages held now: all of them once the log is past the anchors.
  int held_anchor_pages() const;
  // Whether the token at `index` is the first of its page.
  bool StartsPage(LogIndex index) const;
  bool TakePages(LogIndex first, bool anchor);
  // Whether the page that the next token goes to is held by a fork as well.
  bool TailIsShared() const;
  void CopyTail();
  void PushFacts(LogIndex first);
  void Rebase();
  void RefreshViews();
  RowPlace PlaceOf(LogIndex index) const;
  void ReleaseAll();

  WindowShape shape_;
  PageLayout layout_;
  int layer_count_;
  int kv_head_count_;
  int max_step_rows_;
  PagePool* pool_;
  LogIndex next_;
  int extended_rows_ = 0;
  std::vector<Head> heads_;        // [layers * kv heads]
  std::vector<KvHeadView> views_;  // the same order
  std::vector<PageFacts> facts_;   // pages behind the anchors, the same for every head
};

}  // namespace mooring

#endif  // MOORING_MEMORY_WINDOW_H_
