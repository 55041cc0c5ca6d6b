// What a conversation can find again of what has left its window: the spans of its rounds
// (talk/spans.h) in an index (talk/recall.h), filled as the talk goes on and asked by each message.
//
// The index is a function of the log, of where its messages lie and of the encoder; it is built
// anew when a conversation is taken up again, from the vectors that were kept of it. Without an
// encoder a span is found by its words alone.
//
// Thread rule: one thread at a time; that of the encoder where it is asked for a vector.
#ifndef MOORING_TALK_LONG_MEMORY_H_
#define MOORING_TALK_LONG_MEMORY_H_

#include <algorithm>
#include <cstdint>
#include <functional>
#include <span>
#include <string_view>
#include <vector>

#include "base/function_ref.h"
#include "engine/conversation.h"
#include "talk/recall.h"
#include "talk/spans.h"
#include "text/tokenizer.h"

namespace mooring {

struct FoundSpan {
  OfferedSpan span;
  double score = 0;  // RecallHit::score
};

// Who knows what a text means.
struct Meaning {
  int32_t dim = 0;       // items of a vector, at most kMaxVectorDim; 0: nobody does
  uint64_t encoder = 0;  // vectors of another number do not compare with these
  // [dim] items, valid until the next call, which depend on the text alone.
  std::function<std::span<const float>(std::string_view text)> vector_of = {};
};

// The vector of a span, to be kept: making it costs far more than reading it.
struct SpanVector {
  LogRange range;
  uint64_t encoder = 0;          // Meaning::encoder
  std::vector<int8_t> row = {};  // as the index has it (talk/span_vectors.h)

  friend bool operator==(const SpanVector&, const SpanVector&) = default;
};

class LongMemory {
 public:
  // What `most_tokens` is for such windows; 0 where they have no room for what comes back.
  static int64_t MostTokens(const WindowShape& shape);

  // `tokenizer`, `terms` and what `meaning` refers to outlive this. At most `most_tokens` of a span
  // come back at once: kMaxSpanTokens or less, a multiple of kSpanPageTokens.
  LongMemory(const Tokenizer* tokenizer, const TermTable* terms, int64_t most_tokens,
             Meaning meaning = {});

  // The spans of rounds that are over; their vectors from `kept` (in the order of the log) where
  // that has them. REQUIRES: messages as for CutSpans, behind all before. When the index is full
  // the rest of the talk is not found again, and a warning says so, once.
  void Add(const TokenLog& log, std::span<const MessageRange> messages,
           std::span<const SpanVector> kept = {});
  // The same without the encoder, on any thread: what `kept` does not have is found by its words.
  void AddAgain(const TokenLog& log, std::span<const MessageRange> messages,
                std::span<const SpanVector> kept);
  // The vectors of span `first` and all after it that have one.
  std::vector<SpanVector> VectorsFrom(SpanId first) const;

  // What is worth calling back for this message, whose words (without the template's) are these
  // tokens, from the worst to the best. `window_from`: what began here or later is in sight.
  std::vector<FoundSpan> Find(const TokenLog& log, std::string_view message,
                              std::span<const TokenId> words, LogIndex window_from) const;
  // The same for a message that comes next in `conversation`, whose log was added as far as it is
  // out of sight.
  std::vector<FoundSpan> FindFor(const Conversation& conversation, std::string_view message) const;

  const Recall& index() const { return index_; }
  // What of an indexed span comes back, unless a message has more of its words in common with
  // another part of it.
  LogRange LikelyRun(const LogRange& span) const {
    return {span.from, std::min(span.to, span.from + most_tokens_)};
  }

 private:
  // What nobody kept of a span that these words are about.
  using MakeVector = FunctionRef<std::span<const float>(std::span<const SaidRange> said)>;

  void AddSpans(const TokenLog& log, std::span<const MessageRange> messages,
                std::span<const SpanVector> kept, MakeVector make_vector);
  const SpanVector* FindKept(std::span<const SpanVector> kept, const LogRange& span) const;
  std::span<const float> VectorOfText(std::string_view text) const;
  LogRange BestRun(const TokenLog& log, std::span<const TokenId> words, const LogRange& span) const;

  const Tokenizer* tokenizer_;
  const TermTable* terms_;
  int64_t most_tokens_;
  Meaning meaning_;
  Recall index_;
  bool full_ = false;
};

}  // namespace mooring

#endif  // MOORING_TALK_LONG_MEMORY_H_
