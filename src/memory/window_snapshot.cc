// The content of a window as bytes and back (Window::AppendSnapshot, Window::RestoreSnapshot).
//
// Layout, little endian: SnapshotHeader, then for every head [layer, kv head] its pages in order,
// each layout.page_bytes(), slots not filled as zeros.

#include <fmt/format.h>

#include <algorithm>
#include <cstring>

#include "base/checked.h"
#include "memory/window.h"

namespace mooring {
namespace {

struct SnapshotHeader {
  int32_t capacity;
  int32_t anchors;
  int32_t expire_by_page;
  int32_t dtype;
  int32_t head_dim;
  int32_t page_slots;
  int32_t layer_count;
  int32_t kv_head_count;
  int64_t next;
  int64_t first_held;  // log index of the oldest page behind the anchors
  int64_t page_count;  // per head, anchor pages counted
};

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
  const size_t page_count = anchor_pages + facts_.size();
  const SnapshotHeader header = {
      .capacity = shape_.capacity,
      .anchors = shape_.anchors,
      .expire_by_page = shape_.expire_by_page ? 1 : 0,
      .dtype = static_cast<int32_t>(layout_.dtype),
      .head_dim = layout_.head_dim,
      .page_slots = kPageSlots,
      .layer_count = layer_count_,
      .kv_head_count = kv_head_count_,
      .next = next_.value,
      .first_held = facts_.empty() ? shape_.anchors : facts_.front().first.value,
      .page_count = static_cast<int64_t>(page_count)};
  size_t at = out->size();
  out->resize(at + sizeof(header) + heads_.size() * page_count * layout_.page_bytes());
  std::memcpy(out->data() + at, &header, sizeof(header));
  at += sizeof(header);
  for (const Head& head : heads_) {
    for (size_t i = 0; i < page_count; ++i) {
      std::byte* page = reinterpret_cast<std::byte*>(out->data()) + at;
      std::memcpy(page, head.refs[i].data, layout_.page_bytes());
      const int64_t first = i < anchor_pages ? static_cast<int64_t>(i) * kPageSlots
                                             : facts_[i - anchor_pages].first.value;
      const int64_t end =
          i < anchor_pages ? std::min<int64_t>(next_.value, shape_.anchors) : next_.value;
      const auto used = static_cast<int>(std::min<int64_t>(kPageSlots, end - first));
      if (used < kPageSlots) ClearSlots(layout_, used, page);
      at += layout_.page_bytes();
    }
  }
}

Status Window::RestoreSnapshot(std::span<const std::byte> bytes) {
  CHECK(next_.value == 0 && extended_rows_ == 0, "restore into an empty window only");
  SnapshotHeader header;
  if (bytes.size() < sizeof(header)) {
    return Mismatch("length of the saved window", sizeof(header),
                    static_cast<int64_t>(bytes.size()));
  }
  std::memcpy(&header, bytes.data(), sizeof(header));
  struct Field {
    std::string_view name;
    int64_t expected, found;
  };
  const Field fields[] = {
      {"window", shape_.capacity, header.capacity},
      {"anchors", shape_.anchors, header.anchors},
      {"expiry by page", shape_.expire_by_page ? 1 : 0, header.expire_by_page},
      {"key/value type", static_cast<int64_t>(layout_.dtype), header.dtype},
      {"head size", layout_.head_dim, header.head_dim},
      {"page slots", kPageSlots, header.page_slots},
      {"layers", layer_count_, header.layer_count},
      {"key/value heads", kv_head_count_, header.kv_head_count},
  };
  for (const Field& field : fields) {
    if (field.expected != field.found) return Mismatch(field.name, field.expected, field.found);
  }
  // The pages that a window of this shape holds follow from `next` and `first_held`.
  if (header.next < 0 || header.next > INT64_MAX / 2) {
    return Mismatch("tokens read", 0, header.next);
  }
  const int64_t past_anchors = std::max<int64_t>(0, header.next - shape_.anchors);
  const int64_t latest_first =
      shape_.anchors + std::max<int64_t>(0, past_anchors - shape_.recent());
  if (header.first_held < shape_.anchors || header.first_held > latest_first ||
      (header.first_held - shape_.anchors) % kPageSlots != 0) {
    return Mismatch("oldest page", latest_first, header.first_held);
  }
  const int64_t anchor_pages =
      (std::min<int64_t>(header.next, shape_.anchors) + kPageSlots - 1) / kPageSlots;
  const int64_t recent_pages =
      past_anchors == 0 ? 0 : (header.next - header.first_held + kPageSlots - 1) / kPageSlots;
  if (header.page_count != anchor_pages + recent_pages) {
    return Mismatch("pages", anchor_pages + recent_pages, header.page_count);
  }
  const auto capacity = static_cast<int64_t>(heads_.empty() ? 0 : heads_[0].refs.capacity());
  if (header.page_count > capacity) return Mismatch("pages", capacity, header.page_count);
  const CheckedSize expected_bytes =
      CheckedSize(heads_.size()) * static_cast<uint64_t>(header.page_count) * layout_.page_bytes() +
      sizeof(header);
  if (expected_bytes.value() != bytes.size()) {
    return Mismatch("length of the saved window",
                    static_cast<int64_t>(expected_bytes.value().value_or(0)),
                    static_cast<int64_t>(bytes.size()));
  }
  if (static_cast<uint64_t>(header.page_count) * heads_.size() > pool_->free_count()) {
    return Error{
        .kind = ErrorKind::kResources,
        .what = "too few free pages to restore the conversation",
        .where = "page pool",
        .expected = fmt::format("{} free", header.page_count * static_cast<int64_t>(heads_.size())),
        .found = fmt::format("{}", pool_->free_count())};
  }
  next_ = {header.next};
  for (int64_t i = 0; i < anchor_pages; ++i) CHECK(TakePages({i * kPageSlots}, true));
  for (int64_t i = 0; i < recent_pages; ++i) {
    CHECK(TakePages({header.first_held + i * kPageSlots}, false));
    PageFacts& facts = facts_.back();
    facts.used = static_cast<uint16_t>(std::min<int64_t>(kPageSlots, next_ - facts.first));
  }
  const std::byte* from = bytes.data() + sizeof(header);
  for (Head& head : heads_) {
    for (const PageRef& ref : head.refs) {
      std::memcpy(ref.data, from, layout_.page_bytes());
      from += layout_.page_bytes();
    }
  }
  RefreshViews();
  return {};
}

}  // namespace mooring
