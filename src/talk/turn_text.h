// The tokens that new messages add to a talk, and which of them are whose: rendering, apart from
// the engine that reads them. It depends on how the log ends and on no older turn, so that its cost
// does not grow with the talk.
//
// Thread rule: pure functions; what they are given outlives the call.
#ifndef MOORING_TALK_TURN_TEXT_H_
#define MOORING_TALK_TURN_TEXT_H_

#include <cstddef>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "base/result.h"
#include "base/token.h"
#include "text/chat_template.h"
#include "text/tokenizer.h"

namespace mooring {

// One of the three roles by its name, to be kept without owning it; empty for any other.
std::string_view KnownRole(std::string_view name);

// No system text at all uses the template's default; an empty one suppresses it.
using SystemText = std::optional<std::string>;

// The end of a log: all that rendering the next messages depends on.
struct TalkPlace {
  SystemText system;
  bool system_is_new = true;    // not said to the model yet
  bool awaits_answer = false;   // the last record is of a user
  std::optional<TokenId> last;  // the last token; nothing: the log is empty
};

// A message among the tokens of a turn.
struct TurnSpan {
  std::string_view role;     // "user" or "assistant"
  std::string text;          // of neighbours that were joined, all
  size_t message = 0;        // index of the message; of neighbours that were joined, the last
  size_t to = 0;             // its tokens end here and begin where those of the span before it end
  bool with_system = false;  // the system text was said with it
};

struct TurnText {
  std::vector<TokenId> tokens;
  std::vector<TurnSpan> spans;
  TalkPlace place;  // where the next messages go
};

// Neighbours of one role are one message to the template; this is its text.
std::string JoinTexts(std::string before, std::string_view text);

// What `messages` add behind `place`: system text goes with the user's message that follows it, and
// an answer is text that the model is to take for its own. Ends with the opening of an answer,
// unless the last message is one. Neighbours of one role are one message to the template; an answer
// to nothing gets an empty question. Errors: the template refused (kUsage), a role that is none of
// the three (kUsage).
Result<TurnText> RenderTurn(const ChatTemplate& chat_template, const Tokenizer& tokenizer,
                            TalkPlace place, std::span<const ChatMessage> messages);

}  // namespace mooring

#endif  // MOORING_TALK_TURN_TEXT_H_
