// The `chat` command on any input, so that tests can give it one.
//
// Thread rule: one thread.
#ifndef MOORING_APPS_CHAT_H_
#define MOORING_APPS_CHAT_H_

#include <cstdio>

#include "apps/command.h"
#include "talk/dialogue.h"

namespace mooring {

// Talks with whoever writes to `input`: a person when it is a terminal (and --json was not given),
// else a program, one turn per line.
Status RunChatOn(CommandContext& context, std::FILE* input);

// --system TEXT or @FILE; nothing when it was not given.
Result<SystemText> SystemFromFlag(const CommandContext& context);

}  // namespace mooring

#endif  // MOORING_APPS_CHAT_H_
