// Where in a log the words of a message stand. Only that place is kept of a message, or asked for
// when a log is indexed: what the template put around the words is told apart by what they spell.
//
// Thread rule: pure functions.
#ifndef MOORING_TALK_SPELLING_H_
#define MOORING_TALK_SPELLING_H_

#include <optional>
#include <string_view>

#include "engine/token_log.h"
#include "text/tokenizer.h"

namespace mooring {

// What the tokens of `range` spell, special ones apart.
std::string Spelled(const TokenLog& log, const Tokenizer& tokenizer, const LogRange& range);

// The tokens within `message` that spell exactly `text`: its first place there, or its last.
// Nothing when its ends are inside tokens, or no tokens spell it (a template trims words). An empty
// text stands at the front.
std::optional<LogRange> FindSpelled(const TokenLog& log, const Tokenizer& tokenizer,
                                    const LogRange& message, std::string_view text);

}  // namespace mooring

#endif  // MOORING_TALK_SPELLING_H_
