// Spans of the log that stand in a window again: how they are read, kept and landed.

#include <cstring>
#include <utility>

#include "base/check.h"
#include "memory/window.h"

namespace mooring {

Window Window::AnchorsAlone() const {
  CHECK(extended_rows_ == 0 && next_.value >= shape_.anchors);
  Window alone(shape_, layout_, layer_count_, kv_head_count_, max_step_rows_, pool_);
  const auto anchors = static_cast<std::ptrdiff_t>(held_anchor_pages());
  for (size_t h = 0; h < heads_.size(); ++h) {
    Head& to = alone.heads_[h];
    to.refs.assign(heads_[h].refs.begin(), heads_[h].refs.begin() + anchors);
    to.pages.assign(heads_[h].pages.begin(), heads_[h].pages.begin() + anchors);
    for (const PageIndex page : to.pages) pool_->Hold(page);
  }
  alone.next_ = {shape_.anchors};
  alone.RefreshViews();
  return alone;
}

std::vector<std::byte> Window::PagesBehindAnchors() const {
  CHECK(extended_rows_ == 0);
  const auto anchors = static_cast<size_t>(held_anchor_pages());
  const size_t page_bytes = layout_.page_bytes();
  std::vector<std::byte> bytes(heads_.size() * facts_.size() * page_bytes);
  std::byte* to = bytes.data();
  for (const Head& head : heads_) {
    for (size_t i = 0; i < facts_.size(); ++i, to += page_bytes) {
      std::memcpy(to, head.refs[anchors + i].data, page_bytes);
    }
  }
  return bytes;
}

bool Window::FillBehindAnchors(std::span<const std::byte> pages, int64_t tokens) {
  CHECK(extended_rows_ == 0 && facts_.empty() && next_.value == shape_.anchors);
  const auto count = static_cast<size_t>((tokens + kPageSlots - 1) / kPageSlots);
  const size_t page_bytes = layout_.page_bytes();
  CHECK(pages.size() == heads_.size() * count * page_bytes, "pages of another window");
  if (count * heads_.size() > pool_->free_count()) return false;
  const auto anchors = static_cast<size_t>(held_anchor_pages());
  for (size_t i = 0; i < count; ++i) {
    CHECK(TakePages(next_ + static_cast<int64_t>(i) * kPageSlots));
    for (size_t h = 0; h < heads_.size(); ++h) {
      std::memcpy(pool_->data(heads_[h].pages[anchors + i]),
                  pages.data() + (h * count + i) * page_bytes, page_bytes);
    }
  }
  next_ = next_ + tokens;
  RefreshUsed();
  RefreshViews();
  return true;
}

void Window::Land(const OfferedSpan& span, Window& reread) {
  CHECK(recalled_.size() < kMaxRecalledSpans && span.range.tokens() > 0);
  CHECK(reread.next_.value - shape_.anchors == span.range.tokens(), "a span was not read whole");
  const auto index = static_cast<int16_t>(recalled_.size());
  recalled_.push_back({span.range, next_, span.behind_anchors, 0});
  recalled_slots_ += static_cast<int32_t>(span.range.tokens());
  size_t at = facts_.size();
  if (span.behind_anchors) {
    at = 0;
    while (at < facts_.size() && facts_[at].span != kNoSpan &&
           recalled_[static_cast<size_t>(facts_[at].span)].behind_anchors) {
      ++at;
    }
  }
  const auto anchors = static_cast<std::ptrdiff_t>(held_anchor_pages());
  const std::ptrdiff_t to = anchors + static_cast<std::ptrdiff_t>(at);
  for (size_t h = 0; h < heads_.size(); ++h) {
    Head& head = heads_[h];
    Head& from = reread.heads_[h];
    CHECK(
        head.refs.size() + from.refs.size() - static_cast<size_t>(anchors) <= head.refs.capacity(),
        "a window outgrew its bound");
    head.refs.insert(head.refs.begin() + to, from.refs.begin() + anchors, from.refs.end());
    head.pages.insert(head.pages.begin() + to, from.pages.begin() + anchors, from.pages.end());
    from.refs.resize(static_cast<size_t>(anchors));
    from.pages.resize(static_cast<size_t>(anchors));
  }
  for (PageFacts page : reread.facts_) {
    page.first = span.range.from + (page.first.value - shape_.anchors);
    page.span = index;
    facts_.insert(facts_.begin() + static_cast<std::ptrdiff_t>(at++), page);
  }
  reread.facts_.clear();
}

}  // namespace mooring
