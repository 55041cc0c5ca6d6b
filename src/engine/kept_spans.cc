#include "engine/kept_spans.h"

#include <utility>

namespace mooring {
namespace {

// The name, how many anchors there are, and all tokens with whether they were read or generated:
// the arithmetic of a row depends on that.
std::string KeyOf(std::string_view name, const TokenLog& log, const LogRange& span,
                  int32_t anchors) {
  std::string key(name);
  const auto append = [&key](int32_t number) {
    for (int shift = 0; shift < 32; shift += 8) key += static_cast<char>(number >> shift);
  };
  key += '\0';
  append(anchors);
  const auto append_tokens = [&](LogIndex from, LogIndex to) {
    for (LogIndex at = from; at < to; at = at + 1) {
      append(log.token(at) * 2 + (log.generated(at) ? 1 : 0));
    }
  };
  append_tokens({0}, {anchors});
  append_tokens(span.from, span.to);
  return key;
}

}  // namespace

bool KeptSpans::Has(std::string_view name, const TokenLog& log, const LogRange& span,
                    int32_t anchors) const {
  return by_key_.contains(KeyOf(name, log, span, anchors));
}

bool KeptSpans::Fill(std::string_view name, const TokenLog& log, const LogRange& span,
                     Window* alone) {
  const auto found = by_key_.find(KeyOf(name, log, span, alone->shape().anchors));
  if (found == by_key_.end()) return false;
  kept_.splice(kept_.begin(), kept_, found->second);
  return alone->FillBehindAnchors(found->second->pages, span.tokens());
}

void KeptSpans::Keep(std::string_view name, const TokenLog& log, const LogRange& span,
                     const Window& alone) {
  if (most_bytes_ == 0) return;
  std::string key = KeyOf(name, log, span, alone.shape().anchors);
  if (by_key_.contains(key)) return;
  std::vector<std::byte> pages = alone.PagesBehindAnchors();
  if (pages.size() > most_bytes_) return;
  while (bytes_ + pages.size() > most_bytes_) {
    bytes_ -= kept_.back().pages.size();
    by_key_.erase(kept_.back().key);
    kept_.pop_back();
  }
  bytes_ += pages.size();
  kept_.push_front({std::move(key), std::move(pages)});
  by_key_.emplace(kept_.front().key, kept_.begin());
}

void KeptSpans::DropAll() {
  by_key_.clear();
  kept_.clear();
  bytes_ = 0;
}

}  // namespace mooring
