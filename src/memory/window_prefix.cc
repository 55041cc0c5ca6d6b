// The first pages of a window: whether they are there, and shared with others that begin with the
// same tokens.

#include <algorithm>

#include "base/check.h"
#include "memory/window.h"

namespace mooring {

bool Window::HoldsAnchors() const {
  const auto pages = static_cast<size_t>(held_anchor_pages());
  const auto wanted = std::min<int64_t>(next_.value + extended_rows_, shape_.anchors);
  return std::ranges::all_of(heads_, [&](const Head& head) {
    if (head.refs.size() < pages) return false;
    int64_t slots = 0;
    for (size_t i = 0; i < pages; ++i) {
      if (head.refs[i].ages || pool_->holder_count(head.pages[i]) == 0) return false;
      slots += head.refs[i].used;
    }
    return slots >= wanted;
  });
}

PagePrefix Window::FirstPages() const {
  CHECK(extended_rows_ == 0);
  const bool whole = next_.value >= shape_.anchors && recalled_.empty() &&
                     (facts_.empty() || facts_.front().first.value == shape_.anchors);
  if (!whole) return {pool_, 0, {}};
  size_t full = 0;
  while (full < facts_.size() && facts_[full].used == kPageSlots) ++full;
  const size_t count = static_cast<size_t>(held_anchor_pages()) + full;
  std::vector<PageIndex> pages;
  pages.reserve(heads_.size() * count);
  for (const Head& head : heads_) {
    pages.insert(pages.end(), head.pages.begin(),
                 head.pages.begin() + static_cast<std::ptrdiff_t>(count));
  }
  return {pool_, shape_.anchors + static_cast<int64_t>(full) * kPageSlots, std::move(pages)};
}

int64_t Window::BeginWith(const PagePrefix& prefix, int64_t most) {
  CHECK(next_.value == 0 && extended_rows_ == 0);
  const int64_t tokens = std::min(prefix.tokens(), most);
  if (tokens < std::max(shape_.anchors, 1)) return 0;
  const int64_t full = (tokens - shape_.anchors) / kPageSlots;
  const size_t held = prefix.pages().size() / heads_.size();
  const size_t count = static_cast<size_t>(anchor_page_count()) + static_cast<size_t>(full);
  CHECK(count <= held && count <= heads_.front().refs.capacity());
  for (size_t i = 0; i < count; ++i) {
    const bool anchor = i < static_cast<size_t>(anchor_page_count());
    const auto before = static_cast<int64_t>(anchor ? i : facts_.size()) * kPageSlots;
    const LogIndex first = {anchor ? before : shape_.anchors + before};
    PageRef ref = NewRef(first);
    for (size_t h = 0; h < heads_.size(); ++h) {
      const PageIndex page = prefix.pages()[h * held + i];
      pool_->Hold(page);
      ref.data = pool_->data(page);
      heads_[h].refs.push_back(ref);
      heads_[h].pages.push_back(page);
    }
    if (!anchor) facts_.push_back({first, kPageSlots, kNoSpan});
  }
  next_ = {shape_.anchors + full * kPageSlots};
  RefreshViews();
  return next_.value;
}

}  // namespace mooring
