// version, help, config: what the program says about itself and its settings.
#include <fmt/ranges.h>

#include <string>
#include <string_view>
#include <vector>

#include "apps/commands.h"
#include "apps/config.h"
#include "apps/help.h"
#include "apps/options.h"
#include "apps/output.h"
#include "apps/version.h"
#include "kernels/select.h"

namespace mooring {
namespace {

Status RunVersion(CommandContext& context) {
  std::vector<std::string_view> tables;
  for (const Kernels* kernels : RunnableKernels()) tables.push_back(kernels->name);
  if (context.global.json) {
    PrintJson(context.out, {{"version", kVersion}, {"compiler", __VERSION__}, {"kernels", tables}});
  } else {
    Print(context.out, "mooring {}\ncompiler  {}\nkernels   {} (best first)\n", kVersion,
          __VERSION__, fmt::join(tables, ", "));
  }
  return {};
}

Status RunHelp(CommandContext& context) {
  const std::string topic = fmt::format("{}", fmt::join(context.arguments, " "));
  MOORING_ASSIGN_OR_RETURN(const std::string text, TopicHelp(topic, context.global.color));
  PrintText(context.out, text);
  return {};
}

// A value as JSON has it: numbers and switches as such.
Json ValueJson(const Option& option, const Settings& settings) {
  Settings copy = settings;
  return std::visit(
      [&](auto field) -> Json {
        const auto& value = field(copy);
        using Value = std::remove_cvref_t<decltype(value)>;
        if constexpr (std::is_same_v<Value, std::optional<int64_t>>) {
          if (value) return *value;
          return option.unset == "null" ? Json(nullptr) : Json(option.unset);
        } else if constexpr (std::is_same_v<Value, std::string>) {
          return value.empty() && option.unset == "null" ? Json(nullptr) : Json(value);
        } else {
          return value;
        }
      },
      option.field);
}

Status RunConfigShow(CommandContext& context) {
  const Config& config = *context.config;
  if (context.global.json) {
    Json settings = Json::array();
    for (size_t i = 0; i < Options().size(); ++i) {
      settings.push_back({{"key", Options()[i].key},
                          {"value", ValueJson(Options()[i], config.settings)},
                          {"origin", config.origins[i]}});
    }
    const Json file = config.file.empty() ? Json(nullptr) : Json(config.file.string());
    PrintJson(context.out, {{"file", file}, {"settings", std::move(settings)}});
    return {};
  }
  Table table({"KEY", "VALUE", "FROM"});
  for (size_t i = 0; i < Options().size(); ++i) {
    table.Add({std::string(Options()[i].key), SafeText(ValueText(Options()[i], config.settings)),
               SafeText(config.origins[i])});
  }
  table.Print(context.out, context.global.color);
  return {};
}

// The file that would be read: the first candidate that exists, or that somebody named.
const ConfigFile* ChosenFile(const std::vector<ConfigFile>& candidates) {
  for (const ConfigFile& file : candidates) {
    if (file.exists || !file.named_by.empty()) return &file;
  }
  return nullptr;
}

Status RunConfigCheck(CommandContext& context) {
  std::filesystem::path path;
  if (!context.arguments.empty()) {
    path = context.arguments[0];
  } else {
    const auto candidates = ConfigFileCandidates(*context.config_inputs);
    const ConfigFile* chosen = ChosenFile(candidates);
    if (chosen != nullptr) path = chosen->path;
  }
  if (path.empty()) {
    // Nothing to read is nothing wrong; the environment still counts.
    MOORING_RETURN_IF_ERROR([&]() -> Status {
      const Result<Config> config = LoadConfig(*context.config_inputs);
      return config.ok() ? Status() : Status(config.error());
    }());
    if (context.global.json) {
      PrintJson(context.out, {{"file", nullptr}, {"ok", true}});
    } else {
      Print(context.out, "no configuration file; the built-in settings hold\n");
    }
    return {};
  }
  MOORING_ASSIGN_OR_RETURN(const Config config, CheckConfigFile(path));
  if (context.global.json) {
    PrintJson(context.out, {{"file", path.string()}, {"ok", true}, {"warnings", config.warnings}});
    return {};
  }
  Print(context.out, "{}: valid\n", SafeText(path.string()));
  for (const std::string& warning : config.warnings) Print(context.err, "warning: {}\n", warning);
  return {};
}

Status RunConfigPath(CommandContext& context) {
  const auto candidates = ConfigFileCandidates(*context.config_inputs);
  const ConfigFile* chosen = ChosenFile(candidates);
  if (context.global.json) {
    Json places = Json::array();
    for (const ConfigFile& file : candidates) {
      places.push_back(
          {{"path", file.path.string()}, {"exists", file.exists}, {"used", &file == chosen}});
    }
    PrintJson(context.out, {{"places", std::move(places)}});
    return {};
  }
  for (const ConfigFile& file : candidates) {
    const std::string_view state = &file == chosen ? (file.exists ? "used" : "missing")
                                   : file.exists   ? "not used"
                                                   : "absent";
    Print(context.out, "{}  {}\n", SafeText(file.path.string()), state);
  }
  return {};
}

Status RunConfigExample(CommandContext& context) {
  PrintText(context.out, ExampleConfig());
  return {};
}

}  // namespace

Command ConfigShowCommand() {
  return {.name = "config show",
          .arguments = "",
          .summary = "every setting, its value and where that comes from",
          .examples = "mooring config show\nmooring --config my.yaml config show --json",
          .loads_model = true,
          .samples = true,
          .run = RunConfigShow};
}

Command ConfigCheckCommand() {
  return {.name = "config check",
          .arguments = "[FILE]",
          .summary = "whether a configuration file is valid",
          .examples = "mooring config check\nmooring config check ./config.yaml",
          .max_arguments = 1,
          .run = RunConfigCheck,
          .uses_config = false};
}

Command ConfigPathCommand() {
  return {.name = "config path",
          .arguments = "",
          .summary = "where the configuration file is looked for",
          .examples = "mooring config path",
          .run = RunConfigPath,
          .uses_config = false};
}

Command ConfigExampleCommand() {
  return {.name = "config example",
          .arguments = "",
          .summary = "a configuration file with every default",
          .examples = "mooring config example > ~/.config/mooring/config.yaml",
          .run = RunConfigExample,
          .uses_config = false};
}

Command VersionCommand() {
  return {.name = "version",
          .arguments = "",
          .summary = "version, compiler and kernels",
          .examples = "mooring version\nmooring --version",
          .run = RunVersion,
          .uses_config = false};
}

Command HelpCommand() {
  return {.name = "help",
          .arguments = "[TOPIC]",
          .summary = "help on a command, or on settings, environment or exit-codes",
          .examples = "mooring help chat\nmooring help settings",
          .max_arguments = 2,
          .run = RunHelp,
          .uses_config = false};
}

}  // namespace mooring
