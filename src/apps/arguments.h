// The command line as data: which command, which flags, what else.
//
// `--name VALUE`, `--name=VALUE`, `-n VALUE`, `-nVALUE`; `--` ends the flags; `-` and numbers below
// zero are arguments. A flag that is given twice counts the last time, unless its option is a list.
//
// Thread rule: pure function.
#ifndef MOORING_APPS_ARGUMENTS_H_
#define MOORING_APPS_ARGUMENTS_H_

#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "apps/command.h"
#include "apps/config.h"
#include "base/result.h"

namespace mooring {

struct ParsedArguments {
  const Command* command = nullptr;  // null: none was named
  std::string config_path;
  bool json = false;
  bool no_color = false;
  bool quiet = false;
  bool yes = false;
  bool help = false;
  bool version = false;
  CommandFlags flags;
  std::vector<FlagValue> options;
  std::vector<std::string> positional;
};

// `arguments` without the program's name. Errors are kUsage; what is unknown names the nearest.
Result<ParsedArguments> ParseArguments(std::span<const std::string> arguments,
                                       std::span<const Command> commands);

// Flags that go with every command, and those of all commands that load a model, beside the
// options.
std::span<const CommandFlag> GlobalCommandFlags();
std::span<const CommandFlag> ModelCommandFlags();

// Whether the command takes the option's flag.
bool Takes(const Command& command, const Option& option);

}  // namespace mooring

#endif  // MOORING_APPS_ARGUMENTS_H_
