#include "memory/window.h"

#include <fmt/format.h>

#include <algorithm>
#include <cstring>
#include <utility>

#include "base/check.h"

namespace mooring {
namespace {

int64_t PagesPerHeadBound(const WindowShape& shape, int step_rows) {
  const int64_t anchor_pages = (shape.anchors + kPageSlots - 1) / kPageSlots;
  // After a plan the oldest page's last slot is at most R + kRewindSlots behind the first row, so
  // the pages span that, the rest of the oldest page and the rows of the step.
  const int64_t span = int64_t{shape.recent()} + kRewindSlots + kPageSlots - 1 + step_rows;
  return anchor_pages + (span + kPageSlots - 1) / kPageSlots;
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
      views_(heads_.size()) {
  CHECK(CheckWindowShape(shape).ok());
  CHECK(pool->page_bytes() == layout.page_bytes());
  const auto bound = static_cast<size_t>(PagesPerHeadBound(shape, max_step_rows));
  for (Head& head : heads_) {
    head.refs.reserve(bound);
    head.pages.reserve(bound);
  }
  facts_.reserve(bound);
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
      facts_(std::move(other.facts_)) {
  other.heads_.clear();
}

Window::~Window() { ReleaseAll(); }

void Window::ReleaseAll() {
  for (Head& head : heads_) {
    for (const PageIndex page : head.pages) pool_->Release(page);
    head.pages.clear();
    head.refs.clear();
  }
  facts_.clear();
  RefreshViews();
  next_ = {};
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
  const RowPlace place = PlaceOf(next_ - 1);
  return shape_.anchors + (place.query - place.first_visible) + 1;
}

void Window::Apply(const Plan& plan) {
  // Every policy of today drops the same leading pages from every head.
  for (size_t i = 0; i < plan.drop.size(); ++i) {
    CHECK(plan.drop[i].head == kEveryHead && plan.drop[i].page == i,
          "a plan must drop the oldest pages, in order");
  }
  if (plan.drop.empty()) return;
  const auto count = static_cast<std::ptrdiff_t>(plan.drop.size());
  CHECK(plan.drop.size() <= facts_.size());
  const std::ptrdiff_t anchors = held_anchor_pages();
  for (Head& head : heads_) {
    for (std::ptrdiff_t i = 0; i < count; ++i) {
      pool_->Release(head.pages[static_cast<size_t>(anchors + i)]);
    }
    head.pages.erase(head.pages.begin() + anchors, head.pages.begin() + anchors + count);
    head.refs.erase(head.refs.begin() + anchors, head.refs.begin() + anchors + count);
  }
  facts_.erase(facts_.begin(), facts_.begin() + count);
  Rebase();
}

void Window::Rebase() {
  const auto anchors = static_cast<size_t>(held_anchor_pages());
  for (Head& head : heads_) {
    for (size_t i = anchors; i < head.refs.size(); ++i) {
      head.refs[i].base =
          WindowPos{shape_.anchors} + static_cast<int32_t>((i - anchors) * kPageSlots);
    }
  }
  RefreshViews();
}

void Window::RefreshViews() {
  for (size_t i = 0; i < heads_.size(); ++i) views_[i] = {heads_[i].refs};
}

bool Window::StartsPage(LogIndex index) const {
  const int64_t offset = index.value < shape_.anchors ? index.value : index.value - shape_.anchors;
  return offset % kPageSlots == 0;
}

bool Window::TakePages(LogIndex first, bool anchor) {
  PageRef ref;
  if (anchor) {
    ref.base = WindowPos{static_cast<int32_t>(first.value)};
    ref.query_cap = WindowPos{shape_.anchors + shape_.recent()};
    ref.ordinal = static_cast<uint32_t>(first.value / kPageSlots);
    ref.used = static_cast<uint16_t>(std::min<int64_t>(kPageSlots, shape_.anchors - first.value));
    ref.ages = false;
  } else {
    ref.base = WindowPos{shape_.anchors} + static_cast<int32_t>(facts_.size() * kPageSlots);
    ref.ordinal =
        static_cast<uint32_t>(anchor_page_count() + (first.value - shape_.anchors) / kPageSlots);
  }
  for (Head& head : heads_) {
    const std::optional<PageIndex> page = pool_->Take();
    if (!page) return false;
    ref.data = pool_->data(*page);
    CHECK(head.refs.size() < head.refs.capacity(), "a window outgrew its bound");
    head.refs.push_back(ref);
    head.pages.push_back(*page);
  }
  if (!anchor) facts_.push_back({first, 0});
  return true;
}

bool Window::Extend(int row_count, std::span<RowPlace> places) {
  CHECK(extended_rows_ == 0 && row_count >= 1 && row_count <= max_step_rows_);
  const bool copy_tail = TailIsShared();
  size_t new_pages = copy_tail ? 1 : 0;
  for (int i = 0; i < row_count; ++i) new_pages += StartsPage(next_ + i) ? 1 : 0;
  if (new_pages * heads_.size() > pool_->free_count()) return false;
  if (copy_tail) CopyTail();
  for (int i = 0; i < row_count; ++i) {
    const LogIndex index = next_ + i;
    if (StartsPage(index)) CHECK(TakePages(index, index.value < shape_.anchors));
  }
  extended_rows_ = row_count;
  RefreshViews();
  for (int i = 0; i < row_count; ++i) places[static_cast<size_t>(i)] = PlaceOf(next_ + i);
  return true;
}

RowPlace Window::PlaceOf(LogIndex index) const {
  RowPlace place;
  place.first_visible = WindowPos{shape_.anchors};
  if (index.value < shape_.anchors) {
    const auto page = static_cast<int>(index.value / kPageSlots);
    place.query = WindowPos{static_cast<int32_t>(index.value)};
    place.pages_from_end = held_anchor_pages() + static_cast<int>(facts_.size()) - page;
    place.slot = static_cast<int>(index.value % kPageSlots);
    return place;
  }
  const LogIndex origin = facts_.front().first;
  int64_t first_seen = index.value - shape_.recent();
  if (shape_.expire_by_page && first_seen > shape_.anchors) {
    const int64_t behind = first_seen - shape_.anchors;
    first_seen = shape_.anchors + (behind + kPageSlots - 1) / kPageSlots * kPageSlots;
    first_seen = std::min(first_seen, index.value);
  }
  const auto offset = static_cast<int32_t>(index - origin);
  const int64_t seen_offset = std::max<int64_t>(0, first_seen - origin.value);
  place.query = WindowPos{shape_.anchors} + offset;
  place.first_visible = WindowPos{shape_.anchors} + static_cast<int32_t>(seen_offset);
  place.pages_from_end = static_cast<int>(facts_.size()) - offset / kPageSlots;
  place.slot = offset % kPageSlots;
  return place;
}

void Window::Commit() {
  CHECK(extended_rows_ > 0);
  next_ = next_ + extended_rows_;
  extended_rows_ = 0;
  for (PageFacts& facts : facts_) {
    facts.used = static_cast<uint16_t>(std::min<int64_t>(kPageSlots, next_ - facts.first));
  }
}

int64_t Window::RewindBound() const {
  // The row at t sees nothing before max(anchors, t - R); the oldest page held must not be later.
  if (facts_.empty() || facts_.front().first.value <= shape_.anchors) return next_.value;
  return next_.value - (facts_.front().first.value + shape_.recent());
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
  for (PageFacts& facts : facts_) {
    facts.used = static_cast<uint16_t>(std::min<int64_t>(kPageSlots, next_ - facts.first));
  }
  RefreshViews();
}

Window Window::Fork() const {
  CHECK(extended_rows_ == 0);
  Window fork(shape_, layout_, layer_count_, kv_head_count_, max_step_rows_, pool_);
  fork.next_ = next_;
  fork.facts_.insert(fork.facts_.end(), facts_.begin(), facts_.end());
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
  return !StartsPage(next_) && pool_->holder_count(heads_.front().pages.back()) > 1;
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
