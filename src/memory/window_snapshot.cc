// The content of a window as bytes and back (Window::AppendSnapshot, Window::RestoreSnapshot).
//
// Layout, little endian: SnapshotHeader; a SavedSpan for every span that was called back; a
// SavedPage for every page behind the anchors; then for every head [layer, kv head] its pages in
// order, each layout.page_bytes(), slots not filled as zeros.

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cstring>
#include <vector>

#include "base/checked.h"
#include "memory/window.h"

namespace mooring {
namespace {

struct SnapshotHeader {
  int32_t capacity;
  int32_t anchors;
  int32_t expire_by_page;
  int32_t recalled;
  int32_t dtype;
  int32_t head_dim;
  int32_t page_slots;
  int32_t layer_count;
  int32_t kv_head_count;
  int32_t span_count;
  int32_t page_count;  // per head, behind the anchors
  uint32_t first_ordinal;
  int64_t next;
  int64_t floor;
  int64_t spans_changed;
};

struct SavedSpan {
  int64_t from, to, landed;
  int32_t behind_anchors;
  int32_t messages;
};

struct SavedPage {
  int64_t first;
  int32_t used;
  int32_t span;
};
static_assert(sizeof(SnapshotHeader) == 72 && sizeof(SavedSpan) == 32 && sizeof(SavedPage) == 16,
              "the bytes have no gaps");

class ByteTaker {
 public:
  explicit ByteTaker(std::span<const std::byte> bytes) : bytes_(bytes) {}

  size_t left() const { return bytes_.size(); }
  // REQUIRES: size <= left().
  void Copy(void* to, size_t size) {
    std::memcpy(to, bytes_.data(), size);
    bytes_ = bytes_.subspan(size);
  }
  template <typename T>
  bool Take(T* value) {
    if (left() < sizeof(T)) return false;
    Copy(value, sizeof(T));
    return true;
  }

 private:
  std::span<const std::byte> bytes_;
};

template <typename T>
void Put(const T& value, std::string* out) {
  out->append(reinterpret_cast<const char*>(&value), sizeof(value));
}

Error Mismatch(std::string_view what, int64_t expected, int64_t found) {
  return Error{.kind = ErrorKind::kFailed,
               .what = "the saved window does not fit this conversation",
               .where = std::string(what),
               .expected = fmt::format("{}", expected),
               .found = fmt::format("{}", found)};
}

void ClearSlots(const PageLayout& layout, int first_slot, std::byte* page) {
  const size_t item = layout.item_bytes();
  const auto open = static_cast<size_t>(kPageSlots - first_slot);
  // One line per item, and one per block of scales, of all slots.
  const auto clear_lines = [&](std::byte* lines, int count, size_t bytes) {
    for (int i = 0; i < count; ++i) {
      std::memset(lines + static_cast<size_t>(i * kPageSlots + first_slot) * bytes, 0,
                  open * bytes);
    }
  };
  std::byte* values = page + layout.key_bytes();
  clear_lines(page, layout.head_dim, item);
  const size_t line = static_cast<size_t>(layout.head_dim) * item;
  std::memset(values + static_cast<size_t>(first_slot) * line, 0, open * line);
  for (std::byte* items : {page, values}) {
    clear_lines(items + layout.scales_offset(), layout.scale_blocks(), sizeof(uint16_t));
  }
}

}  // namespace

void Window::AppendSnapshot(std::string* out) const {
  CHECK(extended_rows_ == 0);
  const auto anchor_pages = static_cast<size_t>(held_anchor_pages());
  Put(SnapshotHeader{.capacity = shape_.capacity,
                     .anchors = shape_.anchors,
                     .expire_by_page = shape_.expire_by_page ? 1 : 0,
                     .recalled = shape_.recalled,
                     .dtype = static_cast<int32_t>(layout_.dtype),
                     .head_dim = layout_.head_dim,
                     .page_slots = kPageSlots,
                     .layer_count = layer_count_,
                     .kv_head_count = kv_head_count_,
                     .span_count = static_cast<int32_t>(recalled_.size()),
                     .page_count = static_cast<int32_t>(facts_.size()),
                     .first_ordinal = first_ordinal_,
                     .next = next_.value,
                     .floor = floor_.value,
                     .spans_changed = spans_changed_.value},
      out);
  for (const RecalledSpan& span : recalled_) {
    Put(SavedSpan{span.range.from.value, span.range.to.value, span.landed.value,
                  span.behind_anchors ? 1 : 0, span.messages},
        out);
  }
  for (const PageFacts& page : facts_) Put(SavedPage{page.first.value, page.used, page.span}, out);
  size_t at = out->size();
  out->resize(at + heads_.size() * (anchor_pages + facts_.size()) * layout_.page_bytes());
  for (const Head& head : heads_) {
    for (size_t i = 0; i < head.refs.size(); ++i) {
      std::byte* page = reinterpret_cast<std::byte*>(out->data()) + at;
      std::memcpy(page, head.refs[i].data, layout_.page_bytes());
      const auto read = static_cast<int64_t>(std::min<int64_t>(next_.value, shape_.anchors));
      const int64_t used = i < anchor_pages ? read - static_cast<int64_t>(i) * kPageSlots
                                            : facts_[i - anchor_pages].used;
      if (used < kPageSlots) ClearSlots(layout_, static_cast<int>(used), page);
      at += layout_.page_bytes();
    }
  }
}

Status Window::RestoreList(std::span<const RecalledSpan> spans, std::span<const PageFacts> pages) {
  int64_t slots = 0;
  for (const RecalledSpan& span : spans) {
    const int64_t tokens = span.range.tokens();
    if (span.range.from.value < 0 || tokens <= 0 || tokens > shape_.recalled - slots ||
        span.landed < span.range.to || span.landed > spans_changed_ || span.messages < 0) {
      return Mismatch("a span that was called back, in tokens", shape_.recalled - slots, tokens);
    }
    slots += tokens;
  }
  recalled_.assign(spans.begin(), spans.end());
  facts_.assign(pages.begin(), pages.end());
  recalled_slots_ = static_cast<int32_t>(slots);
  LogIndex expected = {-1};  // where the next page that was not called back begins
  int short_pages = 0;
  std::array<int64_t, kMaxRecalledSpans> seen = {};  // slots of each span
  for (const PageFacts& page : pages) {
    if (page.span == kNoSpan) {
      if (expected.value < 0) expected = std::max(page.first, LogIndex{shape_.anchors});
      if (page.first != expected) return Mismatch("page", expected.value, page.first.value);
      expected = page.first + page.used;
      short_pages += page.used < kPageSlots ? 1 : 0;
      continue;
    }
    const auto index = static_cast<size_t>(page.span);
    if (page.span < 0 || index >= spans.size()) {
      return Mismatch("span of a page", static_cast<int64_t>(spans.size()), page.span);
    }
    const RecalledSpan& span = spans[index];
    const int64_t used = std::min<int64_t>(kPageSlots, span.range.tokens() - seen[index]);
    const LogIndex first = span.range.from + seen[index];
    if (page.first != first) return Mismatch("page of a span", first.value, page.first.value);
    if (page.used != used) return Mismatch("slots of a span's page", used, page.used);
    if (span.behind_anchors && expected.value >= 0) return Mismatch("span", 0, page.span);
    seen[index] += page.used;
  }
  for (size_t i = 0; i < spans.size(); ++i) {
    if (seen[i] != spans[i].range.tokens()) {
      return Mismatch("pages of a span", spans[i].range.tokens(), seen[i]);
    }
  }
  if (short_pages > kMaxShortPages + 1) return Mismatch("short pages", kMaxShortPages, short_pages);
  // Everything that the next row sees is here.
  const LogIndex end = next_.value <= shape_.anchors ? LogIndex{-1} : next_;
  if (expected != end) return Mismatch("end of the pages", end.value, expected.value);
  const auto oldest = std::ranges::find(facts_, kNoSpan, &PageFacts::span);
  if (oldest != facts_.end() && oldest->first > SeenFrom(next_)) {
    return Mismatch("oldest page", SeenFrom(next_).value, oldest->first.value);
  }
  return {};
}

Status Window::RestoreSnapshot(std::span<const std::byte> bytes) {
  CHECK(next_.value == 0 && extended_rows_ == 0, "restore into an empty window only");
  const Status restored = TryRestore(bytes);
  if (!restored.ok()) {
    facts_.clear();
    recalled_.clear();
    recalled_slots_ = 0;
    next_ = floor_ = spans_changed_ = {};
    first_ordinal_ = static_cast<uint32_t>(anchor_page_count());
  }
  return restored;
}

Status Window::TryRestore(std::span<const std::byte> bytes) {
  ByteTaker taker(bytes);
  SnapshotHeader header;
  if (!taker.Take(&header)) {
    return Mismatch("length of the saved window", sizeof(header),
                    static_cast<int64_t>(bytes.size()));
  }
  struct Field {
    std::string_view name;
    int64_t expected, found;
  };
  const Field fields[] = {
      {"window", shape_.capacity, header.capacity},
      {"anchors", shape_.anchors, header.anchors},
      {"expiry by page", shape_.expire_by_page ? 1 : 0, header.expire_by_page},
      {"share of what is called back", shape_.recalled, header.recalled},
      {"key/value type", static_cast<int64_t>(layout_.dtype), header.dtype},
      {"head size", layout_.head_dim, header.head_dim},
      {"page slots", kPageSlots, header.page_slots},
      {"layers", layer_count_, header.layer_count},
      {"key/value heads", kv_head_count_, header.kv_head_count},
  };
  for (const Field& field : fields) {
    if (field.expected != field.found) return Mismatch(field.name, field.expected, field.found);
  }
  const auto in_range = [](std::string_view name, int64_t value, int64_t low, int64_t high) {
    return value < low || value > high ? Status(Mismatch(name, high, value)) : Status();
  };
  const auto capacity = static_cast<int64_t>(facts_.capacity());
  const int64_t anchor_pages =
      (std::clamp<int64_t>(header.next, 0, shape_.anchors) + kPageSlots - 1) / kPageSlots;
  MOORING_RETURN_IF_ERROR(in_range("tokens read", header.next, 0, INT64_MAX / 2));
  MOORING_RETURN_IF_ERROR(in_range("first token seen", header.floor, 0, header.next));
  MOORING_RETURN_IF_ERROR(in_range("last change", header.spans_changed, 0, header.next));
  MOORING_RETURN_IF_ERROR(in_range("spans", header.span_count, 0, kMaxRecalledSpans));
  MOORING_RETURN_IF_ERROR(in_range("pages", header.page_count, 0, capacity - anchor_pages));
  MOORING_RETURN_IF_ERROR(in_range("first page's number", header.first_ordinal,
                                   static_cast<uint32_t>(anchor_page_count()), UINT32_MAX / 2));
  std::vector<RecalledSpan> spans(static_cast<size_t>(header.span_count));
  std::vector<PageFacts> pages(static_cast<size_t>(header.page_count));
  bool whole = true;
  for (RecalledSpan& span : spans) {
    SavedSpan saved = {};
    whole = whole && taker.Take(&saved);
    MOORING_RETURN_IF_ERROR(in_range("start of a span", saved.from, 0, header.next));
    MOORING_RETURN_IF_ERROR(in_range("end of a span", saved.to, 0, header.next));
    span = {.range = {{saved.from}, {saved.to}},
            .landed = {saved.landed},
            .behind_anchors = saved.behind_anchors != 0,
            .messages = saved.messages};
  }
  for (PageFacts& page : pages) {
    SavedPage saved = {};
    whole = whole && taker.Take(&saved);
    if (!whole) break;
    MOORING_RETURN_IF_ERROR(in_range("first token of a page", saved.first, 0, header.next));
    MOORING_RETURN_IF_ERROR(in_range("used slots", saved.used, 1, kPageSlots));
    MOORING_RETURN_IF_ERROR(in_range("span of a page", saved.span, kNoSpan, kMaxRecalledSpans));
    page = {.first = {saved.first},
            .used = static_cast<uint16_t>(saved.used),
            .span = static_cast<int16_t>(saved.span)};
  }
  const size_t per_head = static_cast<size_t>(anchor_pages) + pages.size();
  const CheckedSize page_bytes = CheckedSize(heads_.size()) * per_head * layout_.page_bytes();
  if (!whole || page_bytes.value() != taker.left()) {
    return Mismatch("bytes of the pages", static_cast<int64_t>(page_bytes.value().value_or(0)),
                    static_cast<int64_t>(taker.left()));
  }
  next_ = {header.next};
  floor_ = {header.floor};
  spans_changed_ = {header.spans_changed};
  first_ordinal_ = header.first_ordinal;
  MOORING_RETURN_IF_ERROR(RestoreList(spans, pages));
  if (per_head * heads_.size() > pool_->free_count()) {
    return Error{.kind = ErrorKind::kResources,
                 .what = "too few free pages to restore the conversation",
                 .where = "page pool",
                 .expected = fmt::format("{} free", per_head * heads_.size()),
                 .found = fmt::format("{}", pool_->free_count())};
  }
  for (Head& head : heads_) {
    for (size_t i = 0; i < per_head; ++i) {
      const PageIndex page = *pool_->Take();
      PageRef ref;
      if (i < static_cast<size_t>(anchor_pages)) ref = AnchorRef(static_cast<int>(i));
      ref.data = pool_->data(page);
      taker.Copy(ref.data, layout_.page_bytes());
      head.pages.push_back(page);
      head.refs.push_back(ref);
    }
  }
  Relay();
  return {};
}

}  // namespace mooring
