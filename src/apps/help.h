// Help, made from the tables of commands and options: examples first, then flags.
//
// Thread rule: pure functions.
#ifndef MOORING_APPS_HELP_H_
#define MOORING_APPS_HELP_H_

#include <string>
#include <string_view>

#include "apps/command.h"
#include "base/result.h"

namespace mooring {

// What `mooring` alone and `mooring --help` say.
std::string ProgramHelp(bool color);
std::string CommandHelp(const Command& command, bool color);
// A command, the first word of some commands, or one of the topics: settings, environment,
// exit-codes. kUsage with the nearest topic when there is none; "" is ProgramHelp.
Result<std::string> TopicHelp(std::string_view topic, bool color);

}  // namespace mooring

#endif  // MOORING_APPS_HELP_H_
