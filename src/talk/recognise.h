// Finds the conversation of a client that sends no name: the index is asked for the end of its
// history, and every candidate is verified word by word (talk/matching.h has the rule).
//
// Thread rule: as the store.
#ifndef MOORING_TALK_RECOGNISE_H_
#define MOORING_TALK_RECOGNISE_H_

#include <optional>
#include <string>
#include <string_view>

#include "base/result.h"
#include "talk/matching.h"
#include "talk/store.h"

namespace mooring {

struct Recognised {
  ConversationInfo conversation;
  MatchVerdict verdict = {};
  // What TurnStart::after is to be: the last message that is kept, unset for the head's tip.
  std::optional<std::string> after = {};
};

// The conversation whose branch holds the longest history of the request: one that ends with it,
// else the one that has most of what is new too, of equals the newest. Nothing: the request begins
// a conversation.
Result<std::optional<Recognised>> Recognise(Store* store, std::string_view owner,
                                            const RequestHistory& request);

// The same for a conversation that the request names.
Result<Recognised> Align(Store* store, std::string_view owner, const ConversationInfo& conversation,
                         const RequestHistory& request);

}  // namespace mooring

#endif  // MOORING_TALK_RECOGNISE_H_
