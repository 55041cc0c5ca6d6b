#include "talk/recall.h"

#include <fmt/format.h>

namespace mooring {

Recall::Recall(const TermTable* terms, const RecallSettings& settings)
    : terms_(terms), settings_(settings), vectors_(settings.vector_dim) {
  CHECK(settings.vector_dim >= 0 && settings.vector_dim <= kMaxVectorDim);
}

uint64_t Recall::bytes() const {
  return spans_.capacity() * sizeof(Span) + vectors_.bytes() + words_.bytes();
}

Result<SpanId> Recall::Add(const LogRange& range, std::span<const TokenId> tokens,
                           std::span<const float> vector) {
  CHECK(range.from.value >= 0 && range.from < range.to && range.tokens() <= kMaxSpanLength);
  CHECK(spans_.empty() || range.from >= spans_.back().range.to);
  CHECK(static_cast<int64_t>(tokens.size()) <= range.tokens());
  const WipedVector<TermCount> terms = CountTerms(*terms_, tokens);
  const size_t new_spans = CapacityFor(spans_, 1, kLeastSpans) - spans_.capacity();
  const uint64_t needed =
      bytes() + new_spans * sizeof(Span) + vectors_.GrowthBytes() + words_.GrowthBytes(terms);
  if (needed > settings_.max_bytes || span_count() == kMaxSpans) {
    return Error{
        .kind = ErrorKind::kResources,
        .what = "the index of what was said is full",
        .where = fmt::format("span {}, log index {}", span_count(), range.from.value),
        .expected = fmt::format("at most {} bytes and {} spans", settings_.max_bytes, kMaxSpans),
        .found = fmt::format("{} bytes with one span more", needed),
        .remedy = "give the index more memory, or go on without finding what comes now"};
  }
  ReserveFor(&spans_, 1, kLeastSpans);
  Span span = {.range = range};
  for (const TermCount& term : terms) span.words += term.count;
  words_.Add(span_count(), terms);
  vectors_.Add(vector);
  spans_.push_back(span);
  ++live_count_;
  word_count_ += span.words;
  return span_count() - 1;
}

void Recall::Forget(SpanId span) {
  CHECK(span < span_count());
  if (spans_[span].forgotten) return;
  words_.Erase(span, span + 1);
  vectors_.Erase(span);
  --live_count_;
  word_count_ -= spans_[span].words;
  spans_[span].words = 0;
  spans_[span].forgotten = true;
}

void Recall::Rewind(SpanId first) {
  CHECK(first <= span_count());
  words_.Erase(first, span_count());
  vectors_.Rewind(first);
  for (SpanId span = first; span < span_count(); ++span) {
    live_count_ -= spans_[span].forgotten ? 0 : 1;
    word_count_ -= spans_[span].words;
  }
  ShrinkWiped(&spans_, first);
}

}  // namespace mooring
