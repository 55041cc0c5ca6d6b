#include "talk/posting_list.h"

#include <algorithm>
#include <utility>

#include "base/check.h"

namespace mooring {

void PostingList::AppendNumber(uint32_t number) {
  for (; number >= 0x80; number >>= 7) bytes_.push_back(static_cast<uint8_t>(number | 0x80));
  bytes_.push_back(static_cast<uint8_t>(number));
}

void PostingList::Append(SpanId span, uint32_t count) {
  CHECK(span >= end_ && span < kMaxSpans && count > 0);
  if (size_ == kMaxPostings) DropOldest();
  ReserveFor(&bytes_, kMaxPostingBytes, kLeastGrowth);
  AppendNumber((span - end_) << 1 | (count > 1 ? 1 : 0));
  if (count > 1) AppendNumber(count - 2);
  end_ = span + 1;
  ++size_;
}

// Gaps are counted from the span after the last, so those that stay need no change.
void PostingList::DropOldest() {
  const uint8_t* at = bytes_.data();
  complete_from_ = Read(&at, complete_from_).span + 1;
  const auto dropped = at - bytes_.data();
  std::copy(bytes_.begin() + dropped, bytes_.end(), bytes_.begin());
  ShrinkWiped(&bytes_, bytes_.size() - static_cast<size_t>(dropped));
  --size_;
}

void PostingList::Erase(SpanId first, SpanId last) {
  PostingList kept(term_, complete_from_);
  ForEach([&](SpanId span, uint32_t count) {
    if (span < first || span >= last) kept.Append(span, count);
  });
  *this = std::move(kept);
}

bool PostingList::HoldsAnyOf(SpanId first, SpanId last) const {
  if (end_ <= first || size_ == 0) return false;
  if (end_ <= last) return true;  // the newest is one of them
  bool found = false;
  ForEach(
      [&](SpanId span, uint32_t /*count*/) { found = found || (span >= first && span < last); });
  return found;
}

}  // namespace mooring
