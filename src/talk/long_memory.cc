#include "talk/long_memory.h"

#include <algorithm>

#include "base/check.h"
#include "base/log.h"

namespace mooring {

LongMemory::LongMemory(const TermTable* terms, int64_t most_tokens)
    : terms_(terms), most_tokens_(most_tokens), index_(terms, {.vector_dim = 0}) {
  CHECK(most_tokens > 0 && most_tokens % kSpanPageTokens == 0 && most_tokens <= kMaxSpanTokens);
}

int64_t LongMemory::MostTokens(const WindowShape& shape) {
  return std::min<int64_t>(shape.recalled / kSpanPageTokens * kSpanPageTokens, kMaxSpanTokens);
}

void LongMemory::Add(const TokenLog& log, std::span<const MessageRange> messages) {
  if (full_) return;
  std::vector<TokenId> words;
  for (const LogRange& span : CutSpans(messages)) {
    words.clear();
    for (const SaidRange& said : TextIn(span, messages)) {
      for (LogIndex at = said.range.from; at < said.range.to; at = at + 1) {
        words.push_back(log.token(at));
      }
    }
    const Result<SpanId> added = index_.Add(span, words, {});
    if (added.ok()) continue;
    full_ = true;
    spdlog::warn("what is said from now on will not be found again: {}", added.error().Message());
    return;
  }
}

std::vector<FoundSpan> LongMemory::FindFor(const Conversation& conversation,
                                           const Tokenizer& tokenizer,
                                           std::string_view message) const {
  const Window& window = conversation.window();
  // Tokens that are still to be read stand behind what will be out of sight then.
  LogIndex from = window.SeenFrom(conversation.log().end());
  // While all that is not an anchor is in sight, so is everything.
  if (from.value <= window.shape().anchors) from = {0};
  std::vector<FoundSpan> found =
      Find(conversation.log(), tokenizer.Encode(message, Trust::kUntrusted), from);
  // What the anchors hold is always in sight.
  std::erase_if(found, [&window](const FoundSpan& one) {
    return one.span.range.to.value <= window.shape().anchors;
  });
  return found;
}

std::vector<FoundSpan> LongMemory::Find(const TokenLog& log, std::span<const TokenId> words,
                                        LogIndex window_from) const {
  std::vector<FoundSpan> found;
  for (const RecallHit& hit :
       index_.Search({.tokens = words, .vector = {}, .window_from = window_from})) {
    found.push_back(
        {{BestRun(log, words, hit.range), hit.landing == Landing::kBehindAnchors}, hit.score});
  }
  return found;
}

// Of a span that is too long to come back whole, the run of pages with the most of the words.
LogRange LongMemory::BestRun(const TokenLog& log, std::span<const TokenId> words,
                             const LogRange& span) const {
  if (span.tokens() <= most_tokens_) return span;
  std::vector<TermId> asked;
  for (const TokenId token : words) asked.push_back(terms_->term(token));
  std::ranges::sort(asked);
  const auto count_in = [&](const LogRange& run) {
    int64_t count = 0;
    for (LogIndex at = run.from; at < run.to; at = at + 1) {
      const TermId term = terms_->term(log.token(at));
      count += term != kNoTerm && std::ranges::binary_search(asked, term) ? 1 : 0;
    }
    return count;
  };
  LogRange best = {span.from, span.from + most_tokens_};
  int64_t most = count_in(best);
  for (LogIndex from = span.from + kSpanPageTokens; from + most_tokens_ < span.to + kSpanPageTokens;
       from = from + kSpanPageTokens) {
    const LogRange run = {from, std::min(from + most_tokens_, span.to)};
    const int64_t count = count_in(run);
    if (count <= most) continue;
    most = count;
    best = run;
  }
  return best;
}

}  // namespace mooring
