// A list of messages as JSON, as other programs write it: read, checked, and brought into the order
// that a dialogue has.
//
// Thread rule: pure functions.
#ifndef MOORING_TALK_MESSAGE_LIST_H_
#define MOORING_TALK_MESSAGE_LIST_H_

#include <string>
#include <string_view>
#include <vector>

#include "base/result.h"
#include "text/chat_template.h"

namespace mooring {

// {"messages":[{"role","content"},...]} or the list alone. Content is text or a list of text parts;
// "developer" is another word for "system". kModelInvalid names the place for anything else.
Result<std::vector<ChatMessage>> ParseMessages(std::string_view text, const std::string& where);

// Neighbours of one role joined by a blank line; an empty user message before an answer to nothing.
// System messages stay where they are.
std::vector<ChatMessage> InDialogueOrder(std::vector<ChatMessage> messages);

}  // namespace mooring

#endif  // MOORING_TALK_MESSAGE_LIST_H_
