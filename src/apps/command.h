// A subcommand of `mooring`: what it is called, what help says, which flags it takes, what it does.
//
// A command writes results to `out` and everything else to stderr, and reports failure by returning
// an Error, whose kind is the exit code; it never exits the process and never throws.
#ifndef MOORING_APPS_COMMAND_H_
#define MOORING_APPS_COMMAND_H_

#include <atomic>
#include <cstdio>
#include <map>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "apps/settings.h"
#include "base/result.h"

namespace mooring {

struct Config;
struct ConfigInputs;

// What the flags in front of the command say.
struct GlobalFlags {
  std::string config_path;  // --config
  std::string log_level = "info";
  bool json = false;
  bool color = false;  // decided already: a terminal, no NO_COLOR, not TERM=dumb, no --no-color
  bool quiet = false;
  bool yes = false;
};

// Values of flags that belong to one command only, by their long name without dashes; a switch that
// was given is "true". Absent: not given.
using CommandFlags = std::map<std::string, std::string, std::less<>>;

struct CommandContext {
  GlobalFlags global;
  Settings settings;
  CommandFlags flags;
  std::vector<std::string> arguments;  // positional
  // Where results and everything else go. Write with Print (apps/output.h): fmt::print throws when
  // a pipe is closed.
  FILE* out = stdout;
  FILE* err = stderr;
  const Config* config = nullptr;  // where each setting came from; null unless `uses_config`
  const ConfigInputs* config_inputs =
      nullptr;  // for commands that read the configuration themselves
  // Set by SIGINT: a long command looks at it, ends what it does and returns kInterrupted. `chat`
  // clears it to stop one reply only.
  std::atomic<bool>* interrupted = nullptr;

  bool Has(std::string_view flag) const { return flags.contains(flag); }
  // The value of a flag or `fallback`.
  std::string Flag(std::string_view flag, std::string_view fallback) const {
    const auto it = flags.find(flag);
    return it == flags.end() ? std::string(fallback) : it->second;
  }
};

struct CommandFlag {
  std::string_view name;   // long name without dashes: "tokens"
  char letter = 0;         // 0: none
  std::string_view value;  // what help calls the value: "N"; empty: a switch
  std::string_view help;
};

struct Command {
  std::string_view name;       // "pull"; two words for a subcommand: "eval ppl"
  std::string_view arguments;  // as usage shows them: "SOURCE"
  std::string_view summary;    // one line, no final stop
  std::string_view examples;   // shown first in help, one per line
  int min_arguments = 0;
  int max_arguments = 0;
  bool loads_model = false;  // takes the common flags of commands that load a model
  bool samples = false;      // takes the sampling flags
  bool serves = false;       // takes the flags of the server
  std::span<const CommandFlag> flags = {};
  Status (*run)(CommandContext& context) = nullptr;
  // False: the command works without a valid configuration, and settings are the built-in ones.
  bool uses_config = true;
  bool reads_model = false;  // takes --model and --template only
};

// Every command, in the order of help (apps/commands.cc).
std::span<const Command> Commands();

}  // namespace mooring

#endif  // MOORING_APPS_COMMAND_H_
