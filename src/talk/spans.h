// Where the spans of a conversation lie: what memory puts away and finds again as one piece.
//
// A span is one round, a message of the user with what answered it, because a question and its
// answer explain each other. A long round is cut where the pages would end that hold it alone, into
// pieces as equal as whole pages allow, so that none is a scrap.
//
// Thread rule: pure functions.
#ifndef MOORING_TALK_SPANS_H_
#define MOORING_TALK_SPANS_H_

#include <cstdint>
#include <span>
#include <string_view>
#include <vector>

#include "engine/token_log.h"

namespace mooring {

// A round of more tokens than this is cut. 12 whole pages.
inline constexpr int64_t kMaxSpanTokens = 192;
// Cuts lie at multiples of this, counted from the round's first token.
inline constexpr int64_t kSpanPageTokens = 16;

// One message, as a dialogue records it.
struct MessageRange {
  std::string_view role;  // "system", "user" or "assistant"
  LogRange all;           // with the marks and words that the template puts around the text
  LogRange text;          // the text alone, within `all`; empty when no tokens spell it
};

// The spans of all rounds, in the order of the log. A round begins with each message of the user
// (or with the first message, if that is an answer) and ends with the last answer before the next.
// System messages make none: a dialogue gives them the tokens of the message that they came with.
// REQUIRES: messages in the order of the log, without overlap but for system messages.
std::vector<LogRange> CutSpans(std::span<const MessageRange> messages);

// A run of tokens that one side said.
struct SaidRange {
  std::string_view role;
  LogRange range;

  friend bool operator==(const SaidRange&, const SaidRange&) = default;
};

// The parts of `span` in which the user or the assistant speaks: what is worth indexing of it.
// REQUIRES: messages as for CutSpans.
std::vector<SaidRange> TextIn(const LogRange& span, std::span<const MessageRange> messages);

}  // namespace mooring

#endif  // MOORING_TALK_SPANS_H_
