#include "apps/arguments.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <array>
#include <cctype>
#include <optional>
#include <utility>

#include "load/model_store.h"
#include "load/quote.h"

namespace mooring {
namespace {

constexpr std::array<CommandFlag, 7> kGlobalFlags = {{
    {"config", 0, "FILE", "read this configuration file"},
    {"json", 0, "", "results as JSON, one object or one per line"},
    {"no-color", 0, "", "no colour, also on a terminal"},
    {"quiet", 0, "", "no warnings and no progress"},
    {"yes", 0, "", "do not ask"},
    {"help", 'h', "", "show help and end"},
    {"version", 0, "", "show the version and end"},
}};
constexpr std::array<CommandFlag, 1> kModelFlags = {{
    {"explain-plan", 0, "", "show first how this machine will run the model, and why"},
}};

Error Usage(std::string what, std::string where = {}, std::string remedy = {}) {
  return {.kind = ErrorKind::kUsage,
          .what = std::move(what),
          .where = std::move(where),
          .remedy = std::move(remedy)};
}

// What a flag on the command line stands for: an option, or a flag of the program or the command.
struct Meaning {
  const Option* option = nullptr;
  const CommandFlag* flag = nullptr;
  bool global = false;

  bool takes_value() const { return option != nullptr ? !IsSwitch(*option) : !flag->value.empty(); }
};

class Parser {
 public:
  Parser(std::span<const std::string> arguments, std::span<const Command> commands)
      : arguments_(arguments), commands_(commands) {}

  Result<ParsedArguments> Run() {
    while (next_ < arguments_.size()) {
      const std::string& word = arguments_[next_++];
      if (!flags_ended_ && word == "--") {
        flags_ended_ = true;
      } else if (!flags_ended_ && IsFlag(word)) {
        MOORING_RETURN_IF_ERROR(TakeFlag(word));
      } else if (parsed_.command == nullptr) {
        MOORING_RETURN_IF_ERROR(TakeCommand(word));
      } else {
        parsed_.positional.push_back(word);
      }
    }
    MOORING_RETURN_IF_ERROR(CheckCount());
    return std::move(parsed_);
  }

 private:
  static bool IsFlag(std::string_view word) {
    return word.size() > 1 && word[0] == '-' &&
           std::isdigit(static_cast<unsigned char>(word[1])) == 0;
  }

  std::vector<std::string> CommandNames() const {
    std::vector<std::string> names;
    for (const Command& command : commands_) names.emplace_back(command.name);
    return names;
  }

  const Command* FindCommand(std::string_view name) const {
    const auto it = std::ranges::find(commands_, name, &Command::name);
    return it == commands_.end() ? nullptr : &*it;
  }

  Status TakeCommand(const std::string& word) {
    const std::string group = word + " ";
    std::vector<std::string_view> members;
    for (const Command& command : commands_) {
      if (command.name.starts_with(group)) members.push_back(command.name.substr(group.size()));
    }
    if (!members.empty()) return TakeSubcommand(word, members);
    parsed_.command = FindCommand(word);
    if (parsed_.command != nullptr) return {};
    if (std::ranges::find(LaterCommands(), word) != LaterCommands().end()) {
      return NotInThisBuild(word, {}, ErrorKind::kUsage);
    }
    const std::string nearest = NearestName(word, CommandNames());
    return Usage(fmt::format("unknown command {}", QuoteBytes(word)), {},
                 nearest.empty() ? "`mooring help` lists the commands"
                                 : fmt::format("did you mean {}?", nearest));
  }

  Status TakeSubcommand(const std::string& word, const std::vector<std::string_view>& members) {
    // Flags of the program may stand between the two words.
    while (next_ < arguments_.size() && IsFlag(arguments_[next_])) {
      const std::string& flag = arguments_[next_++];
      MOORING_RETURN_IF_ERROR(TakeFlag(flag));
    }
    const std::string name =
        next_ < arguments_.size() ? word + " " + arguments_[next_++] : std::string();
    parsed_.command = FindCommand(name);
    if (parsed_.command != nullptr || parsed_.help) return {};
    const std::string expected = fmt::format("{}", fmt::join(members, ", "));
    Error error = Usage(fmt::format("{} needs to know what to do", word));
    error.expected = "one of " + expected;
    if (!name.empty()) error.found = QuoteBytes(std::string_view(name).substr(word.size() + 1));
    return error;
  }

  Status TakeFlag(const std::string& word) {
    const bool is_long = word.starts_with("--");
    std::string_view name = std::string_view(word).substr(is_long ? 2 : 1, is_long ? word.npos : 1);
    std::optional<std::string> value;
    if (const size_t equals = name.find('='); is_long && equals != name.npos) {
      value = std::string(name.substr(equals + 1));
      name = name.substr(0, equals);
    }
    if (!is_long && word.size() > 2) value = word.substr(word[2] == '=' ? 3 : 2);
    const std::optional<Meaning> meaning = Find(name, is_long, parsed_.command);
    if (!meaning) return UnknownFlag(name, is_long);
    const std::string shown = fmt::format("{}{}", is_long ? "--" : "-", name);
    if (!meaning->takes_value()) {
      if (value) return Usage(fmt::format("{} takes no value", shown), QuoteBytes(word));
      return Put(*meaning, "true");
    }
    if (!value) {
      if (next_ >= arguments_.size() || LooksLikeKnownFlag(arguments_[next_])) {
        return Usage(fmt::format("{} needs a value", shown), {},
                     fmt::format("{}=VALUE takes any text", shown));
      }
      value = arguments_[next_++];
    }
    return Put(*meaning, *std::move(value));
  }

  // So that a forgotten value does not swallow the next flag.
  bool LooksLikeKnownFlag(std::string_view word) const {
    if (!word.starts_with("--")) return false;
    word.remove_prefix(2);
    return Find(word.substr(0, word.find('=')), true, parsed_.command).has_value();
  }

  static const CommandFlag* FindAmong(std::span<const CommandFlag> flags, std::string_view name,
                                      bool is_long) {
    const auto it = std::ranges::find_if(flags, [&](const CommandFlag& flag) {
      return is_long ? flag.name == name : flag.letter != 0 && flag.letter == name[0];
    });
    return it == flags.end() ? nullptr : &*it;
  }

  static std::optional<Meaning> Find(std::string_view name, bool is_long, const Command* command) {
    if (name.empty()) return std::nullopt;
    // A command's own flag counts before everyone's: it may say something more special.
    if (command != nullptr) {
      if (const auto* flag = FindAmong(command->flags, name, is_long)) return Meaning{.flag = flag};
      if (command->loads_model) {
        if (const auto* flag = FindAmong(kModelFlags, name, is_long)) return Meaning{.flag = flag};
      }
    }
    if (const auto* flag = FindAmong(kGlobalFlags, name, is_long)) {
      return Meaning{.flag = flag, .global = true};
    }
    const Option* option = is_long ? FindOptionByFlag(name) : nullptr;
    if (option == nullptr) return std::nullopt;
    const bool taken =
        option->group == OptionGroup::kEvery || (command != nullptr && Takes(*command, *option));
    if (!taken) return std::nullopt;
    return Meaning{.option = option};
  }

  Error UnknownFlag(std::string_view name, bool is_long) const {
    const std::string shown = fmt::format("{}{}", is_long ? "--" : "-", name);
    const std::string where = parsed_.command == nullptr ? "" : std::string(parsed_.command->name);
    if (is_long && std::ranges::find(LaterFlags(), name) != LaterFlags().end()) {
      return NotInThisBuild(shown, where, ErrorKind::kUsage);
    }
    if (parsed_.command == nullptr && KnownSomewhere(name, is_long)) {
      return Usage(fmt::format("{} stands behind the command", shown));
    }
    if (KnownSomewhere(name, is_long)) {
      return Usage(fmt::format("{} is not a flag of {}", shown, where), {},
                   fmt::format("`mooring help {}` lists its flags", where));
    }
    const std::string nearest =
        is_long ? NearestName(name, FlagNames(parsed_.command)) : std::string();
    std::string remedy = fmt::format("did you mean --{}?", nearest);
    if (nearest.empty()) {
      remedy = where.empty() ? "`mooring help` lists the flags"
                             : fmt::format("`mooring help {}` lists its flags", where);
    }
    return Usage(fmt::format("unknown flag {}", QuoteBytes(shown)), where, std::move(remedy));
  }

  bool KnownSomewhere(std::string_view name, bool is_long) const {
    return std::ranges::any_of(commands_, [&](const Command& command) {
      return Find(name, is_long, &command).has_value();
    });
  }

  static std::vector<std::string> FlagNames(const Command* command) {
    std::vector<std::string> names;
    names.reserve(kGlobalFlags.size());
    for (const CommandFlag& flag : kGlobalFlags) names.emplace_back(flag.name);
    if (command != nullptr) {
      for (const CommandFlag& flag : command->flags) names.emplace_back(flag.name);
      if (command->loads_model) names.emplace_back(kModelFlags[0].name);
    }
    for (const Option& option : Options()) {
      const bool taken =
          option.group == OptionGroup::kEvery || (command != nullptr && Takes(*command, option));
      if (taken && !option.flag.empty()) names.emplace_back(option.flag);
    }
    return names;
  }

  Status Put(const Meaning& meaning, std::string value) {
    if (meaning.option != nullptr) {
      const auto it = std::ranges::find(parsed_.options, meaning.option, &FlagValue::option);
      if (it == parsed_.options.end()) {
        parsed_.options.push_back({meaning.option, {std::move(value)}});
      } else {
        it->values.push_back(std::move(value));
      }
      return {};
    }
    const std::string_view name = meaning.flag->name;
    if (!meaning.global) {
      parsed_.flags.insert_or_assign(std::string(name), std::move(value));
    } else if (name == "config") {
      if (value.empty()) return Usage("--config needs the name of a file");
      parsed_.config_path = std::move(value);
    } else if (name == "json") {
      parsed_.json = true;
    } else if (name == "no-color") {
      parsed_.no_color = true;
    } else if (name == "quiet") {
      parsed_.quiet = true;
    } else if (name == "yes") {
      parsed_.yes = true;
    } else if (name == "help") {
      parsed_.help = true;
    } else {
      parsed_.version = true;
    }
    return {};
  }

  Status CheckCount() const {
    const Command* command = parsed_.command;
    if (command == nullptr || parsed_.help) return {};
    const auto count = static_cast<int>(parsed_.positional.size());
    const std::string usage = fmt::format(
        "mooring {}{}{}", command->name, command->arguments.empty() ? "" : " ", command->arguments);
    if (count < command->min_arguments) {
      return Usage(fmt::format("{} needs {}", command->name, command->arguments), {},
                   fmt::format("write `{}`", usage));
    }
    if (count > command->max_arguments) {
      const auto first = static_cast<size_t>(command->max_arguments);
      return Usage(fmt::format("one argument too many for {}", command->name),
                   QuoteBytes(parsed_.positional[first]), fmt::format("write `{}`", usage));
    }
    return {};
  }

  std::span<const std::string> arguments_;
  std::span<const Command> commands_;
  size_t next_ = 0;
  bool flags_ended_ = false;
  ParsedArguments parsed_;
};

}  // namespace

std::span<const CommandFlag> GlobalCommandFlags() { return kGlobalFlags; }
std::span<const CommandFlag> ModelCommandFlags() { return kModelFlags; }

bool Takes(const Command& command, const Option& option) {
  switch (option.group) {
    case OptionGroup::kEvery:
      return true;
    case OptionGroup::kModelFile:
      return command.loads_model || command.reads_model;
    case OptionGroup::kModel:
      return command.loads_model;
    case OptionGroup::kSampling:
      return command.samples;
    case OptionGroup::kServer:
      return command.serves;
  }
  return false;
}

Result<ParsedArguments> ParseArguments(std::span<const std::string> arguments,
                                       std::span<const Command> commands) {
  return Parser(arguments, commands).Run();
}

}  // namespace mooring
