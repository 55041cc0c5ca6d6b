#include "apps/dispatch.h"

#include <fmt/format.h>
#include <poll.h>

#include <algorithm>
#include <cerrno>
#include <exception>
#include <new>
#include <string_view>
#include <utility>

#include "apps/arguments.h"
#include "apps/command.h"
#include "apps/help.h"
#include "apps/output.h"
#include "base/files.h"
#include "base/log.h"

namespace mooring {
namespace {

std::string_view NameOf(ErrorKind kind) {
  switch (kind) {
    case ErrorKind::kFailed:
      return "failed";
    case ErrorKind::kUsage:
      return "usage";
    case ErrorKind::kConfig:
      return "config";
    case ErrorKind::kModelInvalid:
      return "model_invalid";
    case ErrorKind::kNotFound:
      return "not_found";
    case ErrorKind::kNetwork:
      return "network";
    case ErrorKind::kResources:
      return "resources";
    case ErrorKind::kStateHeld:
      return "state_held";
    case ErrorKind::kFaultFound:
      return "fault_found";
    case ErrorKind::kInterrupted:
      return "interrupted";
  }
  return "failed";
}

bool ColorAllowed(const Environment& environment) {
  const auto no_color = environment.find("NO_COLOR");
  const auto term = environment.find("TERM");
  return (no_color == environment.end() || no_color->second.empty()) &&
         (term == environment.end() || term->second != "dumb");
}

// Everything that one call of RunMooring knows.
class Run {
 public:
  Run(std::span<const std::string> arguments, const Program& program)
      : arguments_(arguments),
        program_(program),
        color_allowed_(ColorAllowed(program.environment)) {
    // How to report an error must be known before the arguments are understood.
    const auto flags = arguments.first(
        static_cast<size_t>(std::ranges::find(arguments, "--") - arguments.begin()));
    json_ = std::ranges::find(flags, "--json") != flags.end();
    if (std::ranges::find(flags, "--no-color") != flags.end()) color_allowed_ = false;
  }

  int Main() {
    const Status status = Guarded();
    int code = status.ok() ? 0 : Report(status.error());
    if (no_command_) code = static_cast<int>(ErrorKind::kUsage);
    return Flush(code);
  }

 private:
  bool OutColor() const { return color_allowed_ && !json_ && IsTerminal(program_.out); }

  // Libraries that run out of memory throw, and so does fmt when it writes to a closed pipe.
  Status Guarded() {
    try {
      return Parsed();
    } catch (const std::bad_alloc&) {
      return Error{.kind = ErrorKind::kResources, .what = "out of memory"};
    } catch (const std::exception& exception) {
      if (std::ferror(program_.out) != 0) return {};  // reported by Flush
      return Error{.what = fmt::format("unexpected failure: {}", exception.what())};
    }
  }

  Status Parsed() {
    MOORING_ASSIGN_OR_RETURN(ParsedArguments parsed, ParseArguments(arguments_, Commands()));
    const Command* command = parsed.command;
    if (parsed.help) {
      PrintText(program_.out,
                command == nullptr ? ProgramHelp(OutColor()) : CommandHelp(*command, OutColor()));
      return {};
    }
    if (parsed.version) {
      const auto it = std::ranges::find(Commands(), "version", &Command::name);
      command = it == Commands().end() ? nullptr : &*it;
      parsed.positional.clear();
    }
    if (command == nullptr) {
      PrintText(program_.err, ProgramHelp(color_allowed_ && IsTerminal(program_.err)));
      no_command_ = true;
      return {};
    }
    return Execute(*command, std::move(parsed));
  }

  Status Execute(const Command& command, ParsedArguments parsed) {
    const ConfigInputs inputs = {.config_flag = std::move(parsed.config_path),
                                 .flags = std::move(parsed.options),
                                 .environment = program_.environment,
                                 .system_file = program_.system_config};
    Config config;
    if (command.uses_config) {
      MOORING_ASSIGN_OR_RETURN(config, LoadConfig(inputs));
    } else {
      const ConfigInputs flags_only = {.flags = inputs.flags, .system_file = ""};
      MOORING_ASSIGN_OR_RETURN(config, LoadConfig(flags_only));
    }
    std::atomic<bool> nobody = false;
    CommandContext context;
    context.global = {.config_path = inputs.config_flag,
                      .log_level = config.settings.log.level,
                      .json = parsed.json,
                      .color = OutColor(),
                      .quiet = parsed.quiet,
                      .yes = parsed.yes};
    context.settings = config.settings;
    context.flags = std::move(parsed.flags);
    context.arguments = std::move(parsed.positional);
    context.out = program_.out;
    context.err = program_.err;
    context.config = command.uses_config ? &config : nullptr;
    context.config_inputs = &inputs;
    context.interrupted = program_.interrupted == nullptr ? &nobody : program_.interrupted;
    MOORING_RETURN_IF_ERROR(SetUpLog(parsed.quiet ? "error" : config.settings.log.level,
                                     color_allowed_ && IsTerminal(program_.err)));
    if (!parsed.quiet) {
      for (const std::string& warning : config.warnings) {
        Print(program_.err, "warning: {}\n", warning);
      }
    }
    return command.run(context);
  }

  int Report(const Error& error) {
    // What the command had to say comes before what went wrong.
    (void)std::fflush(program_.out);
    if (json_) {
      PrintJson(program_.err,
                {{"error", {{"message", error.Message()}, {"kind", NameOf(error.kind)}}}});
    } else {
      const bool color = color_allowed_ && IsTerminal(program_.err);
      Print(program_.err, "{} {}\n",
            color ? "\x1b[1;31merror:\x1b[0m" : "error:", SafeText(error.Message()));
    }
    return static_cast<int>(error.kind);
  }

  // Whether the reader of our results has gone: `mooring list | head -1`.
  bool ReaderHasGone() const {
    pollfd descriptor = {.fd = fileno(program_.out), .events = POLLOUT, .revents = 0};
    return poll(&descriptor, 1, 0) == 1 && (descriptor.revents & POLLERR) != 0;
  }

  // A result that was not written is a failure, unless nobody reads it any more.
  int Flush(int code) {
    errno = 0;
    const bool flushed = std::fflush(program_.out) == 0;
    const int reason = flushed ? 0 : errno;
    // An earlier write may have failed; why is no longer known then.
    if ((!flushed || std::ferror(program_.out) != 0) && code == 0 && !ReaderHasGone()) {
      code = Report({.kind = reason == 0 ? ErrorKind::kFailed : KindOfErrno(reason),
                     .what = "cannot write the result",
                     .found = reason == 0 ? std::string() : ErrnoText(reason)});
    }
    (void)std::fflush(program_.err);
    return code;
  }

  std::span<const std::string> arguments_;
  const Program& program_;
  bool color_allowed_;
  bool json_ = false;
  bool no_command_ = false;
};

}  // namespace

int RunMooring(std::span<const std::string> arguments, const Program& program) {
  return Run(arguments, program).Main();
}

}  // namespace mooring
