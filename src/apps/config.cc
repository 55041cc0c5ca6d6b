#include "apps/config.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <span>
#include <system_error>
#include <utility>

#include "apps/yaml_file.h"
#include "base/files.h"
#include "load/model_store.h"
#include "load/quote.h"

namespace mooring {
namespace {

constexpr std::string_view kPrefix = "MOORING_";
constexpr std::string_view kTestsPrefix = "MOORING_TEST_";  // what the tests read
// Not keys, but read elsewhere: by the search for the file and by the model store. MOORING_ISA is
// the name of the key isa.
constexpr std::array<std::string_view, 2> kReservedNames = {"MOORING_CONFIG", "MOORING_HOME"};

struct ProfileValue {
  std::string_view key;
  std::string_view value;
};
constexpr std::array kLaptop = {
    ProfileValue{"precision", "auto"}, ProfileValue{"max_batch_size", "2"},
    ProfileValue{"kv_cache_policy", "dynamic"}, ProfileValue{"use_cuda_graph", "false"}};
constexpr std::array kT4 = {ProfileValue{"precision", "fp16"}, ProfileValue{"window_size", "8192"},
                            ProfileValue{"max_batch_size", "2"},
                            ProfileValue{"kv_cache_policy", "dynamic"}};
constexpr std::array kA100 = {
    ProfileValue{"precision", "int8"}, ProfileValue{"window_size", "32768"},
    ProfileValue{"max_batch_size", "8"}, ProfileValue{"kv_cache_policy", "block"},
    ProfileValue{"use_cuda_graph", "true"}};

std::span<const ProfileValue> ProfileNamed(std::string_view name) {
  if (name == "laptop") return kLaptop;
  if (name == "t4-v100") return kT4;
  if (name == "a100-h100") return kA100;
  return {};
}

// One value from one source, ready to be set.
struct Setting {
  const Option* option;
  RawValue value;
  ValueOrigin origin;
};

const std::string* FindVariable(const Environment& environment, std::string_view name) {
  const auto it = environment.find(name);
  return it == environment.end() || it->second.empty() ? nullptr : &it->second;
}

Result<std::vector<Setting>> FromFile(const std::filesystem::path& path) {
  Result<std::string> text = ReadFile(path, kMaxYamlBytes);
  if (!text.ok()) {
    // Whatever is wrong with it, the configuration cannot be used.
    Error error = text.error();
    error.kind = ErrorKind::kConfig;
    return error;
  }
  MOORING_ASSIGN_OR_RETURN(auto entries, ParseYaml(*text, path.string()));
  std::vector<Setting> settings;
  for (YamlEntry& entry : entries) {
    const Option* option = FindOption(entry.key);
    const bool empty_group = option == nullptr && IsKeyGroup(entry.key) &&
                             entry.value.kind != RawValue::Kind::kText &&
                             entry.value.kind != RawValue::Kind::kList;
    if (empty_group) continue;  // `memory:` with every key commented out
    if (option == nullptr) return BadKey(entry.key, entry.where);
    settings.push_back({option, std::move(entry.value), {entry.where, ErrorKind::kConfig}});
  }
  return settings;
}

// A list in the environment is spelt as in the file; anything else is taken as it is.
Result<RawValue> VariableValue(const Option& option, const std::string& name,
                               const std::string& text) {
  if (!IsList(option) || !text.starts_with('[')) return RawValue::Text(text);
  MOORING_ASSIGN_OR_RETURN(auto entries, ParseYaml("value: " + text, name));
  if (entries.size() != 1) return RawValue::Text(text);
  return std::move(entries[0].value);
}

Result<std::vector<Setting>> FromEnvironment(const Environment& environment,
                                             std::vector<std::string>* warnings) {
  std::vector<Setting> settings;
  std::vector<std::string> known;
  for (const Option& option : Options()) {
    const std::string name = EnvironmentName(option.key);
    known.push_back(name);
    const std::string* text = FindVariable(environment, name);
    if (text == nullptr) continue;
    MOORING_ASSIGN_OR_RETURN(RawValue value, VariableValue(option, name, *text));
    settings.push_back({&option, std::move(value), {name, ErrorKind::kConfig}});
  }
  for (const auto& [name, text] : environment) {
    const bool ours = name.starts_with(kPrefix) && !name.starts_with(kTestsPrefix) && !text.empty();
    if (!ours || std::ranges::find(known, name) != known.end() ||
        std::ranges::find(kReservedNames, name) != kReservedNames.end()) {
      continue;
    }
    std::string key;
    for (size_t i = kPrefix.size(); i < name.size(); ++i) {
      if (name.compare(i, 2, "__") == 0) {
        key += '.';
        ++i;
      } else {
        key += static_cast<char>(std::tolower(static_cast<unsigned char>(name[i])));
      }
    }
    if (IsLaterKey(key) || IsKeyGroup(key)) return BadKey(key, name);
    const std::string nearest = NearestName(name, known);
    // Cluster managers put variables of their own in front of every service's name, so a name that
    // is not near any of ours is reported and does not stop the program.
    if (nearest.empty()) {
      warnings->push_back(fmt::format("{} is not a setting and has no effect", QuoteBytes(name)));
      continue;
    }
    return Error{.kind = ErrorKind::kConfig,
                 .what = "unknown setting in the environment",
                 .where = QuoteBytes(name),
                 .remedy = fmt::format("did you mean {}?", nearest)};
  }
  return settings;
}

std::vector<Setting> FromFlags(const std::vector<FlagValue>& flags) {
  std::vector<Setting> settings;
  for (const FlagValue& flag : flags) {
    RawValue value = IsList(*flag.option) ? RawValue{RawValue::Kind::kList, flag.values}
                                          : RawValue::Text(flag.values.back());
    settings.push_back({flag.option,
                        std::move(value),
                        {fmt::format("--{}", flag.option->flag), ErrorKind::kUsage}});
  }
  return settings;
}

Status Apply(const std::vector<Setting>& settings, Config* config) {
  for (const Setting& setting : settings) {
    MOORING_RETURN_IF_ERROR(
        SetOption(*setting.option, setting.value, setting.origin, &config->settings));
    config->origins[static_cast<size_t>(setting.option - Options().data())] = setting.origin.where;
  }
  return {};
}

Config BuiltIn() {
  Config config;
  config.origins.assign(Options().size(), "built-in");
  return config;
}

// The profile that the sources choose, at the bottom of a new Config.
Result<Config> FromProfile(std::span<const std::vector<Setting>* const> sources) {
  const Option* const profile_option = FindOption("profile");
  Config chosen = BuiltIn();
  for (const std::vector<Setting>* source : sources) {
    for (const Setting& setting : *source) {
      if (setting.option != profile_option) continue;
      MOORING_RETURN_IF_ERROR(Apply({setting}, &chosen));
    }
  }
  const std::string name = chosen.settings.profile;
  std::vector<Setting> settings;
  for (const ProfileValue& value : ProfileNamed(name)) {
    const Option* option = FindOption(value.key);
    CHECK(option != nullptr, "profile {} sets {}", name, value.key);
    settings.push_back({option,
                        RawValue::Text(std::string(value.value)),
                        {fmt::format("profile {}", name), ErrorKind::kConfig}});
  }
  Config config = BuiltIn();
  MOORING_RETURN_IF_ERROR(Apply(settings, &config));
  return config;
}

// Replaces the value of an option that this build cannot give, and says so: in a warning, and where
// the value comes from.
void Replace(std::string_view key, const std::string& value, std::string_view reason,
             Config* config) {
  const Option* const option = FindOption(key);
  std::string& origin = config->origins[static_cast<size_t>(option - Options().data())];
  const std::string asked = ValueText(*option, config->settings);
  config->warnings.push_back(
      fmt::format("{} {} ({}): {}, using {}", key, asked, origin, reason, value));
  const Status set = SetOption(*option, RawValue::Text(value), {}, &config->settings);
  CHECK(set.ok(), "{} cannot be {}", key, value);
  origin += fmt::format(", {} without a GPU", asked);
}

// This build computes on the CPU: what needs a GPU becomes that.
void ResolveEngine(Config* config) {
  const Settings& settings = config->settings;
  if (settings.engine == "cuda" || settings.engine == "tensorrt") {
    Replace("engine", "cpu", "there is no GPU engine here", config);
  }
  if (settings.use_cuda_graph == "true") {
    Replace("use_cuda_graph", "false", "only a GPU engine captures its steps", config);
  }
}

Result<Config> Combine(const std::vector<Setting>& file, const std::vector<Setting>& environment,
                       const std::vector<Setting>& flags) {
  const std::array sources = {&file, &environment, &flags};
  MOORING_ASSIGN_OR_RETURN(Config config, FromProfile(sources));
  for (const std::vector<Setting>* source : sources) {
    MOORING_RETURN_IF_ERROR(Apply(*source, &config));
  }
  config.settings.window_from_flag = std::ranges::any_of(
      flags, [](const Setting& setting) { return setting.option->key == "window_size"; });
  ResolveEngine(&config);
  return config;
}

bool Exists(const std::filesystem::path& path) {
  std::error_code ignored;
  return std::filesystem::exists(path, ignored);
}

// Long help in lines of a readable width, as comments.
void AppendExample(const Option& option, std::string_view name, std::string_view indent,
                   std::string* text) {
  *text += fmt::format("{}# {}.\n{}# {}.\n{}{}: {}\n", indent, option.help, indent,
                       ExpectedText(option), indent, name, DefaultText(option));
}

}  // namespace

std::vector<ConfigFile> ConfigFileCandidates(const ConfigInputs& inputs) {
  if (!inputs.config_flag.empty()) {
    return {{inputs.config_flag, "--config", Exists(inputs.config_flag)}};
  }
  if (const std::string* named = FindVariable(inputs.environment, "MOORING_CONFIG")) {
    return {{*named, "MOORING_CONFIG", Exists(*named)}};
  }
  std::vector<ConfigFile> places;
  std::filesystem::path folder;
  const std::string* xdg = FindVariable(inputs.environment, "XDG_CONFIG_HOME");
  const std::string* home = FindVariable(inputs.environment, "HOME");
  // The XDG rules say to ignore a relative path.
  if (xdg != nullptr && xdg->starts_with('/')) {
    folder = *xdg;
  } else if (home != nullptr) {
    folder = std::filesystem::path(*home) / ".config";
  }
  if (!folder.empty()) {
    const std::filesystem::path path = folder / "mooring" / "config.yaml";
    places.push_back({path, "", Exists(path)});
  }
  places.push_back({inputs.system_file, "", Exists(inputs.system_file)});
  return places;
}

Result<Config> LoadConfig(const ConfigInputs& inputs) {
  std::filesystem::path path;
  std::vector<Setting> file;
  for (const ConfigFile& candidate : ConfigFileCandidates(inputs)) {
    if (!candidate.exists && candidate.named_by.empty()) continue;
    path = candidate.path;
    MOORING_ASSIGN_OR_RETURN(file, FromFile(path));
    break;
  }
  std::vector<std::string> warnings;
  MOORING_ASSIGN_OR_RETURN(const auto environment, FromEnvironment(inputs.environment, &warnings));
  MOORING_ASSIGN_OR_RETURN(Config config, Combine(file, environment, FromFlags(inputs.flags)));
  config.file = path;
  config.warnings.insert(config.warnings.begin(), warnings.begin(), warnings.end());
  return config;
}

Result<Config> CheckConfigFile(const std::filesystem::path& path) {
  MOORING_ASSIGN_OR_RETURN(const auto file, FromFile(path));
  MOORING_ASSIGN_OR_RETURN(Config config, Combine(file, {}, {}));
  config.file = path;
  return config;
}

std::string ExampleConfig() {
  std::string text =
      "# Every setting with its default, made by `mooring config example`. Copy what you change "
      "to\n"
      "# ~/.config/mooring/config.yaml. A flag counts more than the environment (MOORING_ and the\n"
      "# key in capitals, two underscores for a dot), that more than this file, and the file more\n"
      "# than the profile it chooses.\n\n";
  std::string_view group;
  for (const Option& option : Options()) {
    const size_t dot = option.key.find('.');
    if (dot == std::string_view::npos) {
      AppendExample(option, option.key, "", &text);
      continue;
    }
    if (option.key.substr(0, dot) != group) {
      group = option.key.substr(0, dot);
      text += fmt::format("\n{}:\n", group);
    }
    AppendExample(option, option.key.substr(dot + 1), "  ", &text);
  }
  return text;
}

}  // namespace mooring
