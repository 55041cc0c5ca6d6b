#include "memory/window.h"

#include <fmt/format.h>

#include <algorithm>
#include <cstring>
#include <utility>

#include "base/check.h"

namespace mooring {
namespace {

int PagesOf(int64_t slots) { return static_cast<int>((slots + kPageSlots - 1) / kPageSlots); }

int64_t PagesPerHeadBound(const WindowShape& shape, int step_rows) {
  // After a plan the oldest page's last slot is at most R + kRewindSlots behind the first row, so
  // the pages span that, the rest of the oldest page and the rows of the step.
  const int64_t span = int64_t{shape.recent()} + kRewindSlots + kPageSlots - 1 + step_rows;
  int64_t pages = PagesOf(shape.anchors) + PagesOf(span);
  if (shape.recalled > 0) {
    // Each span may end in a page that is not full. Spans are read before any page goes for them.
    pages += kMaxShortPages + 2 * (PagesOf(shape.recalled) + kMaxRecalledSpans);
  }
  return pages;
}

}  // namespace

int64_t WindowPageBound(const WindowShape& shape, int head_count, int step_rows) {
  return PagesPerHeadBound(shape, step_rows) * head_count;
}

int32_t WindowTurnCount(const WindowShape& shape) { return shape.capacity + kPageSlots; }

Status CheckWindowShape(const WindowShape& shape) {
  if (shape.anchors < 0) {
    return Error{.kind = ErrorKind::kUsage,
                 .what = "the number of anchors is negative",
                 .where = "anchors",
                 .expected = "0 or more",
                 .found = fmt::format("{}", shape.anchors)};
  }
  if (shape.capacity < shape.anchors + 2) {
    return Error{
        .kind = ErrorKind::kUsage,
        .what = "the window is too small for its anchors",
        .where = "window",
        .expected = fmt::format("at least {} ({} anchors, one recent token and the current one)",
                                shape.anchors + 2, shape.anchors),
        .found = fmt::format("{}", shape.capacity),
        .remedy = "use a larger --window or fewer --anchors"};
  }
  if (shape.recalled < 0 || shape.recalled > shape.recent() / 2) {
    return Error{.kind = ErrorKind::kUsage,
                 .what = "the share of the window for what is called back is out of range",
                 .where = "recall",
                 .expected = fmt::format("0 to {} tokens (half of the window behind the anchors)",
                                         shape.recent() / 2),
                 .found = fmt::format("{}", shape.recalled),
                 .remedy = "use a larger --window"};
  }
  return {};
}

Window::Window(const WindowShape& shape, const PageLayout& layout, int layer_count,
               int kv_head_count, int max_step_rows, PagePool* pool)
    : shape_(shape),
      layout_(layout),
      layer_count_(layer_count),
      kv_head_count_(kv_head_count),
      max_step_rows_(max_step_rows),
      pool_(pool),
      heads_(static_cast<size_t>(layer_count * kv_head_count)),
      views_(heads_.size()),
      first_ordinal_(static_cast<uint32_t>(anchor_page_count())) {
  CHECK(CheckWindowShape(shape).ok());
  CHECK(pool->page_bytes() == layout.page_bytes());
  const auto bound = static_cast<size_t>(PagesPerHeadBound(shape, max_step_rows));
  for (Head& head : heads_) {
    head.refs.reserve(bound);
    head.pages.reserve(bound);
  }
  facts_.reserve(bound);
  gone_.reserve(bound);
  recalled_.reserve(kMaxRecalledSpans);
}

Window::Window(Window&& other) noexcept
    : shape_(other.shape_),
      layout_(other.layout_),
      layer_count_(other.layer_count_),
      kv_head_count_(other.kv_head_count_),
      max_step_rows_(other.max_step_rows_),
      pool_(other.pool_),
      next_(other.next_),
      extended_rows_(other.extended_rows_),
      heads_(std::move(other.heads_)),
      views_(std::move(other.views_)),
      facts_(std::move(other.facts_)),
      recalled_(std::move(other.recalled_)),
      gone_(std::move(other.gone_)),
      first_ordinal_(other.first_ordinal_),
      recalled_slots_(other.recalled_slots_),
      floor_(other.floor_),
      spans_changed_(other.spans_changed_) {
  other.heads_.clear();
}

Window::~Window() {
  for (const Head& head : heads_) {
    for (const PageIndex page : head.pages) pool_->Release(page);
  }
}

int Window::held_anchor_pages() const {
  const auto read = std::min<int64_t>(next_.value + extended_rows_, shape_.anchors);
  return static_cast<int>((read + kPageSlots - 1) / kPageSlots);
}

int64_t Window::held_pages() const {
  return heads_.empty() ? 0 : static_cast<int64_t>(heads_.size() * heads_[0].pages.size());
}

int32_t Window::attended() const {
  if (next_.value == 0) return 0;
  if (next_.value <= shape_.anchors) return static_cast<int32_t>(next_.value);
  return shape_.anchors + recalled_slots_ + static_cast<int32_t>(next_ - VisibleFrom(next_ - 1));
}

LogIndex Window::SeenFrom(LogIndex index) const {
  const LogIndex edge = index - (shape_.recent() - recalled_slots_);
  return std::max({edge, floor_, LogIndex{shape_.anchors}});
}

LogIndex Window::VisibleFrom(LogIndex index) const {
  const LogIndex from = SeenFrom(index);
  if (!shape_.expire_by_page) return from;
  for (const PageFacts& page : facts_) {
    if (page.span == kNoSpan && page.first >= from) return std::min(page.first, index);
  }
  return index;
}

void Window::Apply(const Plan& plan, bool message_start, std::span<Window> reread) {
  CHECK(extended_rows_ == 0 && plan.recall.size() == reread.size());
  CHECK(message_start || !plan.changes_spans(), "only a message changes spans");
  if (message_start) {
    for (RecalledSpan& span : recalled_) ++span.messages;
    for (const uint32_t i : plan.refresh) recalled_[i].messages = 0;
  }
  if (plan.drop.empty() && !plan.changes_spans()) return;
  gone_.assign(facts_.size(), 0);
  size_t oldest = 0;  // of the pages that were not called back, the next to be dropped
  for (const PageDrop& drop : plan.drop) {
    while (oldest < facts_.size() && facts_[oldest].span != kNoSpan) ++oldest;
    CHECK(drop.head == kEveryHead && drop.page == oldest && oldest < facts_.size(),
          "a plan must drop the oldest pages, in order");
    gone_[oldest++] = 1;
    ++first_ordinal_;
  }
  const LogIndex seen_from = SeenFrom(next_);
  for (size_t r = plan.release.size(); r > 0; --r) {
    const uint32_t span = plan.release[r - 1];
    CHECK(span < recalled_.size() && (r == plan.release.size() || span < plan.release[r]));
    recalled_slots_ -= static_cast<int32_t>(recalled_[span].range.tokens());
    for (size_t i = 0; i < facts_.size(); ++i) {
      if (facts_[i].span == static_cast<int16_t>(span)) gone_[i] = 1;
      if (facts_[i].span > static_cast<int16_t>(span)) --facts_[i].span;
    }
    recalled_.erase(recalled_.begin() + span);
  }
  RemovePages(gone_);
  for (size_t i = 0; i < reread.size(); ++i) Land(plan.recall[i], reread[i]);
  CHECK(recalled_slots_ <= shape_.recalled, "a plan called back too much");
  if (plan.changes_spans()) {
    // What a row saw no more stays unseen when spans leave and make room.
    floor_ = std::max(seen_from, SeenFrom(next_));
    spans_changed_ = next_;
    for (const PageFacts& page : facts_) {
      if (page.span != kNoSpan) continue;
      floor_ = std::max(floor_, page.first);
      break;
    }
  }
  Relay();
}

void Window::RemovePages(std::span<const uint8_t> gone) {
  const auto anchors = static_cast<size_t>(held_anchor_pages());
  for (Head& head : heads_) {
    size_t kept = anchors;
    for (size_t i = 0; i < gone.size(); ++i) {
      if (gone[i] != 0) {
        pool_->Release(head.pages[anchors + i]);
        continue;
      }
      head.pages[kept] = head.pages[anchors + i];
      head.refs[kept++] = head.refs[anchors + i];
    }
    head.pages.resize(kept);
    head.refs.resize(kept);
  }
  size_t kept = 0;
  for (size_t i = 0; i < gone.size(); ++i) {
    if (gone[i] == 0) facts_[kept++] = facts_[i];
  }
  facts_.resize(kept);
}

void Window::Relay() {
  const auto anchors = static_cast<size_t>(held_anchor_pages());
  const auto last_anchor = static_cast<uint32_t>(std::max(1, anchor_page_count()) - 1);
  for (Head& head : heads_) {
    WindowPos base = {shape_.anchors};
    uint32_t next_ordinal = first_ordinal_;
    // The distance to what ages not stops growing when what stands before it is seen no more. How
    // much of that is still held must not matter.
    WindowPos query_cap = {shape_.anchors + shape_.recent()};
    for (size_t i = 0; i < facts_.size(); ++i) {
      const PageFacts& facts = facts_[i];
      PageRef& ref = head.refs[anchors + i];
      ref.base = base;
      ref.ages = facts.span == kNoSpan;
      ref.query_cap = ref.ages ? kNoQueryCap : query_cap;
      // Only the last page is still being filled.
      ref.used = i + 1 == facts_.size() && ref.ages ? uint16_t{kPageSlots} : facts.used;
      base = base + ref.used;
      if (ref.ages) {
        ref.ordinal = next_ordinal++;
        query_cap = query_cap + ref.used;
      } else if (recalled_[static_cast<size_t>(facts.span)].behind_anchors) {
        ref.ordinal = last_anchor;
      } else {
        ref.ordinal = std::max(1U, next_ordinal) - 1;
      }
    }
  }
  RefreshViews();
}

void Window::RefreshViews() {
  for (size_t h = 0; h < heads_.size(); ++h) views_[h].pages = heads_[h].refs;
}

int Window::TailRoom() const {
  if (next_.value < shape_.anchors) {
    const auto slot = static_cast<int>(next_.value % kPageSlots);
    return slot == 0
               ? 0
               : std::min<int>(kPageSlots - slot, shape_.anchors - static_cast<int>(next_.value));
  }
  if (facts_.empty() || facts_.back().span != kNoSpan) return 0;
  return kPageSlots - facts_.back().used;
}

PageRef Window::AnchorRef(int page) const {
  const int32_t first = page * kPageSlots;
  PageRef ref;
  ref.base = WindowPos{first};
  ref.query_cap = WindowPos{shape_.anchors + shape_.recent()};
  ref.ordinal = static_cast<uint32_t>(page);
  ref.used = static_cast<uint16_t>(std::min(kPageSlots, shape_.anchors - first));
  ref.ages = false;
  return ref;
}

PageRef Window::NewRef(LogIndex first) const {
  if (first.value < shape_.anchors) return AnchorRef(static_cast<int>(first.value / kPageSlots));
  PageRef ref;
  ref.base = WindowPos{shape_.anchors};
  if (!facts_.empty()) {
    const PageRef& last = heads_.front().refs.back();
    ref.base = last.base + last.used;
  }
  ref.ordinal =
      first_ordinal_ + static_cast<uint32_t>(std::ranges::count(facts_, kNoSpan, &PageFacts::span));
  return ref;
}

bool Window::TakePages(LogIndex first) {
  PageRef ref = NewRef(first);
  for (Head& head : heads_) {
    const std::optional<PageIndex> page = pool_->Take();
    if (!page) return false;
    ref.data = pool_->data(*page);
    CHECK(head.refs.size() < head.refs.capacity(), "a window outgrew its bound");
    head.refs.push_back(ref);
    head.pages.push_back(*page);
  }
  if (first.value >= shape_.anchors) facts_.push_back({first, 0, kNoSpan});
  return true;
}

bool Window::Extend(int row_count, std::span<RowPlace> places) {
  CHECK(extended_rows_ == 0 && row_count >= 1 && row_count <= max_step_rows_);
  const bool copy_tail = TailIsShared();
  const int tail_room = TailRoom();
  const auto starts_page = [this, tail_room](int row) {
    const LogIndex index = next_ + row;
    if (index.value < shape_.anchors) return index.value % kPageSlots == 0;
    const int64_t first =
        next_.value < shape_.anchors ? index.value - shape_.anchors : row - tail_room;
    return first >= 0 && first % kPageSlots == 0;
  };
  size_t new_pages = copy_tail ? 1 : 0;
  for (int i = 0; i < row_count; ++i) new_pages += starts_page(i) ? 1 : 0;
  if (new_pages * heads_.size() > pool_->free_count()) return false;
  if (copy_tail) CopyTail();
  for (int i = 0; i < row_count; ++i) {
    if (starts_page(i)) CHECK(TakePages(next_ + i));
  }
  extended_rows_ = row_count;
  RefreshViews();
  for (int i = 0; i < row_count; ++i) places[static_cast<size_t>(i)] = PlaceOf(next_ + i);
  return true;
}

RowPlace Window::PlaceOf(LogIndex index) const {
  RowPlace place;
  place.first_visible = WindowPos{shape_.anchors};
  const auto refs = views_.front().pages;
  size_t page = refs.size() - 1;
  if (index.value < shape_.anchors) {
    page = static_cast<size_t>(index.value / kPageSlots);
    place.slot = static_cast<int>(index.value % kPageSlots);
  } else {
    const auto anchors = refs.size() - facts_.size();
    const auto first_of = [this, anchors](size_t at) { return facts_[at - anchors].first; };
    while (facts_[page - anchors].span != kNoSpan || first_of(page) > index) --page;
    place.slot = static_cast<int>(index - first_of(page));
    // Where the first that it sees stands: the last page that begins there or before.
    const LogIndex seen_from = VisibleFrom(index);
    size_t oldest = page;
    for (size_t at = anchors; at <= page; ++at) {
      if (facts_[at - anchors].span != kNoSpan) continue;
      if (first_of(at) > seen_from) break;
      oldest = at;
    }
    const int64_t hidden = std::max<int64_t>(0, seen_from - first_of(oldest));
    place.first_visible = refs[oldest].base + static_cast<int32_t>(hidden);
  }
  place.query = refs[page].base + place.slot;
  place.pages_from_end = static_cast<int>(refs.size() - page);
  return place;
}

void Window::Commit() {
  CHECK(extended_rows_ > 0);
  next_ = next_ + extended_rows_;
  extended_rows_ = 0;
  RefreshUsed();
}

void Window::RefreshUsed() {
  LogIndex end = next_;
  for (size_t i = facts_.size(); i > 0; --i) {
    PageFacts& page = facts_[i - 1];
    if (page.span != kNoSpan) continue;
    page.used = static_cast<uint16_t>(std::min<int64_t>(kPageSlots, end - page.first));
    end = page.first;
  }
}

int64_t Window::RewindBound() const {
  const int64_t since_spans = next_ - spans_changed_;
  // The row at t sees nothing before SeenFrom(t); the oldest page held must not be later.
  for (const PageFacts& page : facts_) {
    if (page.span != kNoSpan) continue;
    if (page.first <= std::max(floor_, LogIndex{shape_.anchors})) break;
    return std::min(since_spans, next_ - (page.first + (shape_.recent() - recalled_slots_)));
  }
  return since_spans;
}

void Window::Rewind(int count) {
  CHECK(extended_rows_ == 0 && count >= 0 && count <= RewindBound());
  const LogIndex target = next_ - count;
  // The pages to give back are those whose first slot is not used any more.
  int kept_anchor_pages = held_anchor_pages();
  size_t kept_pages = facts_.size();
  while (kept_pages > 0 && facts_[kept_pages - 1].first >= target) --kept_pages;
  while (kept_anchor_pages > 0 && (kept_anchor_pages - 1) * kPageSlots >= target.value) {
    --kept_anchor_pages;
  }
  const size_t kept = static_cast<size_t>(kept_anchor_pages) + kept_pages;
  for (Head& head : heads_) {
    while (head.pages.size() > kept) {
      pool_->Release(head.pages.back());
      head.pages.pop_back();
      head.refs.pop_back();
    }
  }
  facts_.resize(kept_pages);
  next_ = target;
  RefreshUsed();
  RefreshViews();
}

void Window::Age(int64_t tokens) {
  CHECK(extended_rows_ == 0 && next_.value > shape_.anchors && recalled_.empty());
  CHECK(tokens >= 0 && tokens % kAlikeTokens == 0);
  const LogIndex anchors_end = {shape_.anchors};
  next_ = next_ + tokens;
  for (PageFacts& page : facts_) page.first = page.first + tokens;
  floor_ = std::max(floor_, anchors_end) + tokens;
  spans_changed_ = std::max(spans_changed_, anchors_end) + tokens;
  first_ordinal_ += static_cast<uint32_t>(tokens / kPageSlots);
  Relay();
}

Window Window::Fork() const {
  CHECK(extended_rows_ == 0);
  Window fork(shape_, layout_, layer_count_, kv_head_count_, max_step_rows_, pool_);
  fork.next_ = next_;
  fork.facts_.insert(fork.facts_.end(), facts_.begin(), facts_.end());
  fork.recalled_.insert(fork.recalled_.end(), recalled_.begin(), recalled_.end());
  fork.first_ordinal_ = first_ordinal_;
  fork.recalled_slots_ = recalled_slots_;
  fork.floor_ = floor_;
  fork.spans_changed_ = spans_changed_;
  for (size_t h = 0; h < heads_.size(); ++h) {
    const Head& from = heads_[h];
    Head& to = fork.heads_[h];
    to.refs.insert(to.refs.end(), from.refs.begin(), from.refs.end());
    to.pages.insert(to.pages.end(), from.pages.begin(), from.pages.end());
    for (const PageIndex page : to.pages) pool_->Hold(page);
  }
  fork.RefreshViews();
  return fork;
}

bool Window::TailIsShared() const {
  return TailRoom() > 0 && pool_->holder_count(heads_.front().pages.back()) > 1;
}

void Window::CopyTail() {
  for (Head& head : heads_) {
    const std::optional<PageIndex> copy = pool_->Take();
    CHECK(copy.has_value());
    std::memcpy(pool_->data(*copy), head.refs.back().data, layout_.page_bytes());
    pool_->Release(head.pages.back());
    head.pages.back() = *copy;
    head.refs.back().data = pool_->data(*copy);
  }
}

}  // namespace mooring
