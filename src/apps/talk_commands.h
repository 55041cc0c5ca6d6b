// The commands that talk: `chat`, `run`, and `conv` on conversation files. Their rows for the table
// in commands.cc.
//
// Thread rule: pure functions.
#ifndef MOORING_APPS_TALK_COMMANDS_H_
#define MOORING_APPS_TALK_COMMANDS_H_

#include "apps/command.h"

namespace mooring {

Command ChatCommand();
Command RunCommand();
Command ServeCommand();
Command ConvExportCommand();
Command ConvImportCommand();
Command ConvVerifyCommand();

}  // namespace mooring

#endif  // MOORING_APPS_TALK_COMMANDS_H_
