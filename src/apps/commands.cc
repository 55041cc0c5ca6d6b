#include "apps/commands.h"

#include <array>

#include "apps/command.h"
#include "apps/measure_commands.h"
#include "apps/talk_commands.h"

namespace mooring {

std::span<const Command> Commands() {
  static const std::array kCommands = {
      ChatCommand(),          RunCommand(),        ServeCommand(),       PullCommand(),
      ListCommand(),          ShowCommand(),       RmCommand(),          VerifyCommand(),
      ConvExportCommand(),    ConvImportCommand(), ConvVerifyCommand(),  TokenizeCommand(),
      TemplateCommand(),      EvalPplCommand(),    EvalRecallCommand(),  BenchCommand(),
      DoctorCommand(),        ConfigShowCommand(), ConfigCheckCommand(), ConfigPathCommand(),
      ConfigExampleCommand(), VersionCommand(),    HelpCommand(),
  };
  return kCommands;
}

}  // namespace mooring
