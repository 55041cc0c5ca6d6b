#include "apps/help.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <span>
#include <utility>
#include <vector>

#include "apps/arguments.h"
#include "apps/options.h"
#include "apps/output.h"
#include "load/model_store.h"
#include "load/quote.h"

namespace mooring {
namespace {

constexpr std::string_view kProgramExamples =
    "  mooring pull smollm2                    fetch the default model (about 100 MB)\n"
    "  mooring chat                            talk; the conversation never ends\n"
    "  mooring run smollm2 \"What is a mooring?\"\n"
    "  mooring doctor                          when something is wrong\n";

constexpr std::string_view kExitCodes =
    "  0    done\n"
    "  1    failed while running\n"
    "  2    wrong flags or arguments\n"
    "  3    configuration invalid\n"
    "  4    model file (or another input file) invalid or unsupported\n"
    "  5    model, conversation or file not found\n"
    "  6    network or download failed\n"
    "  7    not enough memory, disk or file descriptors\n"
    "  8    state held by another process\n"
    "  9    `doctor` or `verify` found a fault\n"
    "  130  ended by Ctrl-C\n"
    "  143  ended by SIGTERM\n";

// Rows of two columns; a first column that is too long has its row to itself.
class Rows {
 public:
  void Add(std::string first, std::string second) {
    rows_.emplace_back(std::move(first), std::move(second));
  }
  std::string Text() const {
    constexpr size_t kWidest = 26;
    size_t width = 0;
    for (const auto& [first, second] : rows_) {
      if (first.size() <= kWidest) width = std::max(width, first.size());
    }
    std::string text;
    for (const auto& [first, second] : rows_) {
      if (first.size() > width) {
        text += fmt::format("  {}\n  {:{}}  {}\n", first, "", width, second);
      } else {
        text += fmt::format("  {:{}}  {}\n", first, width, second);
      }
    }
    return text;
  }

 private:
  std::vector<std::pair<std::string, std::string>> rows_;
};

std::string FlagText(const CommandFlag& flag) {
  std::string text = flag.letter != 0 ? fmt::format("-{}, ", flag.letter) : std::string();
  text += fmt::format("--{}", flag.name);
  if (!flag.value.empty()) text += fmt::format(" {}", flag.value);
  return text;
}

std::string OptionText(const Option& option) {
  return IsSwitch(option) ? fmt::format("--{}", option.flag)
                          : fmt::format("--{} {}", option.flag, option.value_name);
}

std::string OptionHelp(const Option& option) {
  std::string text(option.help);
  if (!option.choices.empty()) text += fmt::format(" ({})", fmt::join(option.choices, ", "));
  return text + fmt::format(" [{}]", DefaultText(option));
}

void AddFlags(std::span<const CommandFlag> flags, Rows* rows) {
  for (const CommandFlag& flag : flags) rows->Add(FlagText(flag), std::string(flag.help));
}

// The options whose flags this command takes, but for those that it says something of its own
// about.
void AddOptions(const Command& command, Rows* rows) {
  for (const Option& option : Options()) {
    const bool own =
        std::ranges::find(command.flags, option.flag, &CommandFlag::name) != command.flags.end();
    if (option.flag.empty() || own || option.group == OptionGroup::kEvery) continue;
    if (Takes(command, option)) rows->Add(OptionText(option), OptionHelp(option));
  }
}

Rows GlobalRows() {
  Rows rows;
  AddFlags(GlobalCommandFlags(), &rows);
  for (const Option& option : Options()) {
    if (option.group == OptionGroup::kEvery && !option.flag.empty()) {
      rows.Add(OptionText(option), OptionHelp(option));
    }
  }
  return rows;
}

std::string Section(std::string_view title, const std::string& text, bool color) {
  return text.empty() ? std::string() : fmt::format("\n{}\n{}", Bold(title, color), text);
}

std::string CommandRows(std::string_view group) {
  Rows rows;
  for (const Command& command : Commands()) {
    if (!group.empty() && !command.name.starts_with(std::string(group) + " ")) continue;
    std::string name(command.name);
    if (!command.arguments.empty()) name += fmt::format(" {}", command.arguments);
    rows.Add(std::move(name), std::string(command.summary));
  }
  return rows.Text();
}

std::string SettingsHelp() {
  Rows rows;
  for (const Option& option : Options()) {
    std::string text =
        fmt::format("{}; {} [{}]", option.help, ExpectedText(option), DefaultText(option));
    if (!option.flag.empty()) text += fmt::format(" --{}", option.flag);
    rows.Add(std::string(option.key), std::move(text));
  }
  return rows.Text();
}

std::string EnvironmentHelp() {
  Rows rows;
  rows.Add("MOORING_CONFIG", "the configuration file, unless --config names one");
  rows.Add("MOORING_HOME", "the folder for models");
  rows.Add("NO_COLOR", "no colour, also on a terminal");
  for (const Option& option : Options()) {
    rows.Add(EnvironmentName(option.key), std::string(option.help));
  }
  return rows.Text();
}

}  // namespace

std::string ProgramHelp(bool color) {
  std::string text = "mooring: conversations with language models that never end\n";
  text += Section("Examples", std::string(kProgramExamples), color);
  text += Section("Commands", CommandRows(""), color);
  text += Section("Flags of every command", GlobalRows().Text(), color);
  text += "\n`mooring help COMMAND` says more; other topics: settings, environment, exit-codes.\n";
  return text;
}

std::string CommandHelp(const Command& command, bool color) {
  std::string text = fmt::format("mooring {}: {}\n", command.name, command.summary);
  std::string examples;
  for (size_t at = 0; at < command.examples.size();) {
    const size_t end = std::min(command.examples.find('\n', at), command.examples.size());
    examples += fmt::format("  {}\n", command.examples.substr(at, end - at));
    at = end + 1;
  }
  text += Section("Examples", examples, color);
  text += Section("Usage",
                  fmt::format("  mooring {} [flags]{}{}\n", command.name,
                              command.arguments.empty() ? "" : " ", command.arguments),
                  color);
  Rows own;
  AddFlags(command.flags, &own);
  text += Section("Flags", own.Text(), color);
  Rows model;
  AddOptions(command, &model);
  if (command.loads_model) AddFlags(ModelCommandFlags(), &model);
  text += Section("Flags that are settings too", model.Text(), color);
  text += Section("Flags of every command", GlobalRows().Text(), color);
  return text;
}

Result<std::string> TopicHelp(std::string_view topic, bool color) {
  if (topic.empty()) return ProgramHelp(color);
  std::vector<std::string> known = {"settings", "environment", "exit-codes"};
  if (topic == known[0]) {
    return fmt::format("Keys of the configuration file, with limits, default and flag\n\n{}",
                       SettingsHelp());
  }
  if (topic == known[1]) return fmt::format("Environment\n\n{}", EnvironmentHelp());
  if (topic == known[2]) return fmt::format("Exit codes\n\n{}", kExitCodes);
  for (const Command& command : Commands()) {
    if (command.name == topic) return CommandHelp(command, color);
    known.emplace_back(command.name);
  }
  if (std::string rows = CommandRows(topic); !rows.empty()) {
    return fmt::format("mooring {}\n", topic) + Section("Commands", rows, color);
  }
  if (std::ranges::find(LaterCommands(), topic) != LaterCommands().end()) {
    return NotInThisBuild(topic, {}, ErrorKind::kUsage);
  }
  const std::string nearest = NearestName(topic, known);
  return Error{.kind = ErrorKind::kUsage,
               .what = fmt::format("no help on {}", QuoteBytes(topic)),
               .remedy = nearest.empty() ? "`mooring help` lists the commands"
                                         : fmt::format("did you mean {}?", nearest)};
}

}  // namespace mooring
