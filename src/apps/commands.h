// The commands that look after models, settings and the machine: their rows for the table in
// commands.cc. A new command is a function that makes its row, and a line in that table.
//
// Thread rule: pure functions.
#ifndef MOORING_APPS_COMMANDS_H_
#define MOORING_APPS_COMMANDS_H_

#include "apps/command.h"

namespace mooring {

Command PullCommand();
Command ListCommand();
Command ShowCommand();
Command RmCommand();
Command VerifyCommand();
Command TokenizeCommand();
Command TemplateCommand();
Command DoctorCommand();
Command ConfigShowCommand();
Command ConfigCheckCommand();
Command ConfigPathCommand();
Command ConfigExampleCommand();
Command VersionCommand();
Command HelpCommand();

}  // namespace mooring

#endif  // MOORING_APPS_COMMANDS_H_
