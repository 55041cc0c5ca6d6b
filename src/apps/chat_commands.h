// What a line that begins with '/' does in a chat.
//
// Thread rule: one thread.
#ifndef MOORING_APPS_CHAT_COMMANDS_H_
#define MOORING_APPS_CHAT_COMMANDS_H_

#include <string>
#include <string_view>

#include "apps/ongoing_chat.h"

namespace mooring {

// Whether `line` is a command and not a message. A person who types '/' means a command, known or
// not ("//" begins a message with one '/'); on a pipe only the names of commands are commands,
// since a text may well begin with a path.
bool IsChatCommand(std::string_view line, bool interactive);

// Runs it. Whatever is wrong is told, and the chat goes on; on a pipe it is an error.
Status RunChatCommand(std::string_view line, OngoingChat* chat);

// One line per command.
std::string ChatCommandHelp();

}  // namespace mooring

#endif  // MOORING_APPS_CHAT_COMMANDS_H_
