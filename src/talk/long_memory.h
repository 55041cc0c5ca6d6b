// What a conversation can find again of what has left its window: the spans of its rounds
// (talk/spans.h) in an index (talk/recall.h), filled as the talk goes on and asked by each message.
//
// The index is a function of the log and of where its messages lie; it is built anew when a
// conversation is taken up again.
//
// Thread rule: one thread at a time.
#ifndef MOORING_TALK_LONG_MEMORY_H_
#define MOORING_TALK_LONG_MEMORY_H_

#include <cstdint>
#include <span>
#include <string_view>
#include <vector>

#include "engine/conversation.h"
#include "talk/recall.h"
#include "talk/spans.h"
#include "text/tokenizer.h"

namespace mooring {

struct FoundSpan {
  OfferedSpan span;
  double score = 0;  // RecallHit::score
};

class LongMemory {
 public:
  // What `most_tokens` is for such windows; 0 where they have no room for what comes back.
  static int64_t MostTokens(const WindowShape& shape);

  // `terms` outlives this. At most `most_tokens` of a span come back at once: kMaxSpanTokens or
  // less, a multiple of kSpanPageTokens.
  LongMemory(const TermTable* terms, int64_t most_tokens);

  // The spans of rounds that are over. REQUIRES: messages as for CutSpans, behind all before. When
  // the index is full the rest of the talk is not found again, and a warning says so, once.
  void Add(const TokenLog& log, std::span<const MessageRange> messages);

  // What is worth calling back for a message of these tokens (of its words, without the
  // template's), from the worst to the best. `window_from`: what began here or later is in sight.
  std::vector<FoundSpan> Find(const TokenLog& log, std::span<const TokenId> words,
                              LogIndex window_from) const;
  // The same for a message that comes next in `conversation`, whose log was added as far as it is
  // out of sight.
  std::vector<FoundSpan> FindFor(const Conversation& conversation, const Tokenizer& tokenizer,
                                 std::string_view message) const;

  const Recall& index() const { return index_; }

 private:
  LogRange BestRun(const TokenLog& log, std::span<const TokenId> words, const LogRange& span) const;

  const TermTable* terms_;
  int64_t most_tokens_;
  Recall index_;
  bool full_ = false;
};

}  // namespace mooring

#endif  // MOORING_TALK_LONG_MEMORY_H_
