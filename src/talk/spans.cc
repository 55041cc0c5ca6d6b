#include "talk/spans.h"

#include <algorithm>

#include "base/check.h"
#include "engine/conversation.h"

namespace mooring {
namespace {

static_assert(kSpanPageTokens == kPageSlots && kMaxSpanTokens % kSpanPageTokens == 0);

int64_t RoundedUp(int64_t count, int64_t unit) { return (count + unit - 1) / unit; }

void AppendPieces(const LogRange& round, std::vector<LogRange>* spans) {
  if (round.tokens() == 0) return;
  const int64_t pages = RoundedUp(round.tokens(), kSpanPageTokens);
  const int64_t pieces = RoundedUp(pages, kMaxSpanTokens / kSpanPageTokens);
  LogIndex from = round.from;
  for (int64_t i = 0; i < pieces; ++i) {
    const int64_t piece_pages = pages / pieces + (i < pages % pieces ? 1 : 0);
    const LogIndex to = std::min(from + piece_pages * kSpanPageTokens, round.to);
    spans->push_back({from, to});
    from = to;
  }
}

}  // namespace

std::vector<LogRange> CutSpans(std::span<const MessageRange> messages) {
  std::vector<LogRange> spans;
  LogRange round;
  for (const MessageRange& message : messages) {
    if (message.role == "system") continue;
    CHECK(message.all.from >= round.to && message.all.to >= message.all.from);
    if (message.role == "user" || round.tokens() == 0) {
      AppendPieces(round, &spans);
      round = message.all;
    } else {
      round.to = message.all.to;
    }
  }
  AppendPieces(round, &spans);
  return spans;
}

std::vector<SaidRange> TextIn(const LogRange& span, std::span<const MessageRange> messages) {
  std::vector<SaidRange> said;
  for (const MessageRange& message : messages) {
    if (message.role == "system") continue;
    const LogRange part = {std::max(span.from, message.text.from),
                           std::min(span.to, message.text.to)};
    if (part.from < part.to) said.push_back({message.role, part});
  }
  return said;
}

}  // namespace mooring
