#include "talk/long_memory.h"

#include <algorithm>
#include <string>
#include <utility>

#include "base/check.h"
#include "base/log.h"
#include "talk/spelling.h"

namespace mooring {
namespace {

// What a span is about: the user's words. What is asked later resembles them, and not an answer
// that went on from there; a piece of a long round that has none of them goes by what it says
// itself.
std::string AboutOf(const TokenLog& log, const Tokenizer& tokenizer,
                    std::span<const SaidRange> said) {
  std::string about;
  for (const std::string_view role : {"user", "assistant"}) {
    for (const SaidRange& part : said) {
      if (part.role != role) continue;
      if (!about.empty()) about += '\n';
      about += Spelled(log, tokenizer, part.range);
    }
    if (!about.empty()) break;
  }
  return about;
}

}  // namespace

LongMemory::LongMemory(const Tokenizer* tokenizer, const TermTable* terms, int64_t most_tokens,
                       Meaning meaning)
    : tokenizer_(tokenizer),
      terms_(terms),
      most_tokens_(most_tokens),
      meaning_(std::move(meaning)),
      index_(terms, {.vector_dim = meaning_.dim}) {
  CHECK(most_tokens > 0 && most_tokens % kSpanPageTokens == 0 && most_tokens <= kMaxSpanTokens);
  CHECK(meaning_.dim == 0 || meaning_.vector_of != nullptr);
}

int64_t LongMemory::MostTokens(const WindowShape& shape) {
  return std::min<int64_t>(shape.recalled / kSpanPageTokens * kSpanPageTokens, kMaxSpanTokens);
}

std::span<const float> LongMemory::VectorOfText(std::string_view text) const {
  if (meaning_.dim == 0 || text.empty()) return {};
  return meaning_.vector_of(text);
}

void LongMemory::Add(const TokenLog& log, std::span<const MessageRange> messages,
                     std::span<const SpanVector> kept) {
  AddSpans(log, messages, kept, [&](std::span<const SaidRange> said) {
    return VectorOfText(meaning_.dim == 0 ? std::string() : AboutOf(log, *tokenizer_, said));
  });
}

void LongMemory::AddAgain(const TokenLog& log, std::span<const MessageRange> messages,
                          std::span<const SpanVector> kept) {
  AddSpans(log, messages, kept,
           [](std::span<const SaidRange> /*said*/) { return std::span<const float>(); });
}

const SpanVector* LongMemory::FindKept(std::span<const SpanVector> kept,
                                       const LogRange& span) const {
  const auto at = std::ranges::lower_bound(
      kept, span.from.value, {}, [](const SpanVector& one) { return one.range.from.value; });
  const bool fits = at != kept.end() && at->range == span && at->encoder == meaning_.encoder &&
                    std::ssize(at->row) == meaning_.dim;
  return fits ? &*at : nullptr;
}

std::vector<SpanVector> LongMemory::VectorsFrom(SpanId first) const {
  std::vector<SpanVector> vectors;
  for (SpanId span = first; span < index_.span_count(); ++span) {
    const std::span<const int8_t> row = index_.row(span);
    if (row.empty()) continue;
    vectors.push_back({index_.range(span), meaning_.encoder, {row.begin(), row.end()}});
  }
  return vectors;
}

void LongMemory::AddSpans(const TokenLog& log, std::span<const MessageRange> messages,
                          std::span<const SpanVector> kept, MakeVector make_vector) {
  if (full_) return;
  std::vector<TokenId> words;
  std::vector<float> again;
  for (const LogRange& span : CutSpans(messages)) {
    words.clear();
    const std::vector<SaidRange> said = TextIn(span, messages);
    for (const SaidRange& part : said) {
      for (LogIndex at = part.range.from; at < part.range.to; at = at + 1) {
        words.push_back(log.token(at));
      }
    }
    const SpanVector* vector = FindKept(kept, span);
    if (vector != nullptr) again.assign(vector->row.begin(), vector->row.end());
    const Result<SpanId> added =
        index_.Add(span, words, vector != nullptr ? again : make_vector(said));
    if (added.ok()) continue;
    full_ = true;
    spdlog::warn("what is said from now on will not be found again: {}", added.error().Message());
    return;
  }
}

std::vector<FoundSpan> LongMemory::FindFor(const Conversation& conversation,
                                           std::string_view message) const {
  const Window& window = conversation.window();
  // Tokens that are still to be read stand behind what will be out of sight then.
  LogIndex from = window.SeenFrom(conversation.log().end());
  // While all that is not an anchor is in sight, so is everything.
  if (from.value <= window.shape().anchors) from = {0};
  std::vector<FoundSpan> found =
      Find(conversation.log(), message, tokenizer_->Encode(message, Trust::kUntrusted), from);
  // What the anchors hold is always in sight.
  std::erase_if(found, [&window](const FoundSpan& one) {
    return one.span.range.to.value <= window.shape().anchors;
  });
  return found;
}

std::vector<FoundSpan> LongMemory::Find(const TokenLog& log, std::string_view message,
                                        std::span<const TokenId> words,
                                        LogIndex window_from) const {
  std::vector<FoundSpan> found;
  // While all of it is in sight nobody needs to know what a message means.
  if (index_.span_count() == 0 || index_.range(0).from >= window_from) return found;
  for (const RecallHit& hit : index_.Search(
           {.tokens = words, .vector = VectorOfText(message), .window_from = window_from})) {
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
  LogRange best = LikelyRun(span);
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
