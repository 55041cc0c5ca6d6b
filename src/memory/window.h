// What a conversation attends to now: per (layer, kv head) the ordered pages, and the only owner of
// their base positions.
//
// Layout. The first `anchors` tokens fill pages of their own; the last of these is never filled
// further. Every later token goes to the page that is being filled, or, when that is full or
// closed, to a new one. Nothing but a span that lands right before a message closes a page; so what
// a page holds, and its ordinal, are functions of the log and of what landed when. Held pages are
// laid without gaps from position 0 on.
//
// The exact rule (docs/memory.md): with R = capacity - anchors - 1 less what is called back, the
// row at log index t sees key j when j < anchors or t - R <= j <= t, at distance t - j, except that
// the distance to anchors stops growing at the window's edge. `expire_by_page` rounds t - R up to
// the first slot of a page. A span that was called back is seen whole, from where it stands.
//
// A step is: Propose (Policy), Apply, Extend, run the rows, Commit. All storage is reserved by the
// constructor: none of these allocates. To call spans back, read each in a window that
// AnchorsAlone() made, then Apply the plan with these windows.
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
#include "memory/page_prefix.h"
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
  // Whether every head still holds the first tokens, as it must from the first one read on: for
  // whoever looks for a fault, not for the step.
  bool HoldsAnchors() const;

  // Slots of spans that were called back.
  int32_t recalled_slots() const { return recalled_slots_; }
  // First token behind the anchors that the row at `index` sees, pages that expire whole apart.
  LogIndex SeenFrom(LogIndex index) const;

  // For a step that does not begin a message; Engine adds what was found for one that does.
  WindowFacts Facts() const {
    return {.shape = shape_,
            .next = next_,
            .pages = facts_,
            .seen_from = SeenFrom(next_),
            .recalled = recalled_};
  }
  // A window that shares the anchors of this one and holds nothing else: what is read next stands
  // right behind them. REQUIRES: next() >= anchors; outlives nothing: it holds its pages itself.
  Window AnchorsAlone() const;
  // What AnchorsAlone() gave and has read since, as bytes [heads][pages][page_bytes()]: a function
  // of the tokens of the anchors and of those read.
  std::vector<std::byte> PagesBehindAnchors() const;
  // Instead of reading `tokens` tokens: the bytes that a window had which read the same behind the
  // same anchors. False, with nothing changed, when the pool has too few pages. REQUIRES: as
  // AnchorsAlone() gave it.
  bool FillBehindAnchors(std::span<const std::byte> pages, int64_t tokens);
  // `reread[i]` has read the tokens of plan.recall[i] behind the anchors alone; its pages move
  // here. `message_start` as the facts had it.
  void Apply(const Plan& plan, bool message_start = false, std::span<Window> reread = {});

  // Takes the pages that the next `row_count` tokens need, and writes where each of them stands
  // into `places` [row_count]. False, with nothing changed, when the pool has too few. REQUIRES:
  // row_count in [1, max_step_rows]; no Extend without a Commit in between.
  bool Extend(int row_count, std::span<RowPlace> places);
  // The rows of the last Extend have been computed and stored.
  void Commit();
  // How many tokens can be taken back so that every row to come still finds what it may see: at
  // least kRewindSlots (or all) behind the last plan, but none beyond the last that changed spans.
  int64_t RewindBound() const;
  // Takes back the last `count` tokens. REQUIRES: count <= RewindBound().
  void Rewind(int count);

  // From now on as if `tokens` more had been said right behind the anchors, long ago: the rows to
  // come see the same, and what they compute is the same to the bit for every age but 0, where
  // anchors and recent pages may be in one run. For tests and measurements of great age.
  // REQUIRES: tokens a multiple of kAlikeTokens; more than the anchors are read, no span is held.
  void Age(int64_t tokens);

  // Valid until the next change of the window.
  KvView View() const { return {layout_, kv_head_count_, views_}; }

  // A window with the same content that shares all pages. Whichever of the two first writes into
  // the page being filled copies it then.
  Window Fork() const;
  // The pages from the beginning of the log on that are never written again; none when the first of
  // them has left or a span was called back.
  PagePrefix FirstPages() const;
  // Begins an empty window with pages of another one of this shape, as many as `most` tokens fill;
  // returns how many these hold. REQUIRES: the log begins with the tokens of these pages.
  int64_t BeginWith(const PagePrefix& prefix, int64_t most);

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
  // Slots that are left in the page to which the next token goes: 0 when it starts one.
  int TailRoom() const;
  // Anchor page `page` but for its data.
  PageRef AnchorRef(int page) const;
  // The page whose first token is `first`, behind all that are held, but for its data.
  PageRef NewRef(LogIndex first) const;
  bool TakePages(LogIndex first);
  // Whether the page that the next token goes to is held by a fork as well.
  bool TailIsShared() const;
  void CopyTail();
  // Removes the pages for which `gone` says so, by index into facts_.
  void RemovePages(std::span<const uint8_t> gone);
  void Land(const OfferedSpan& span, Window& reread);
  // SeenFrom, or the first slot of the next page where pages expire whole.
  LogIndex VisibleFrom(LogIndex index) const;
  // Slots filled of every page that was not called back, from where the pages begin.
  void RefreshUsed();
  // Bases, ordinals and the slots that may be seen, after a change of the list of pages.
  void Relay();
  void RefreshViews();
  RowPlace PlaceOf(LogIndex index) const;
  Status TryRestore(std::span<const std::byte> bytes);
  // Takes over what the bytes say of spans and pages if it can be true of a window of this shape: a
  // file that was made to deceive must not lead attention out of its arrays.
  Status RestoreList(std::span<const RecalledSpan> spans, std::span<const PageFacts> pages);

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
  std::vector<RecalledSpan> recalled_;
  std::vector<uint8_t> gone_;   // Apply's own, as long as facts_
  uint32_t first_ordinal_ = 0;  // of the oldest page behind the anchors that was not called back
  int32_t recalled_slots_ = 0;
  LogIndex floor_;          // nothing behind the anchors and before this is seen any more
  LogIndex spans_changed_;  // `next` of the last plan that changed spans
};

}  // namespace mooring

#endif  // MOORING_MEMORY_WINDOW_H_
