// The effective settings of a run: flag, else environment, else file, else profile, else built-in.
//
// Invariant: whatever the sources hold, a Config has only values that the table of options allows;
// a key that is unknown, or known but not built, is an error and never passed over.
//
// Thread rule: plain values and functions of their arguments and the files they name.
#ifndef MOORING_APPS_CONFIG_H_
#define MOORING_APPS_CONFIG_H_

#include <filesystem>
#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "apps/options.h"
#include "apps/settings.h"
#include "base/result.h"

namespace mooring {

using Environment = std::map<std::string, std::string, std::less<>>;

struct FlagValue {
  const Option* option = nullptr;
  std::vector<std::string> values;  // each time it was given
};

struct ConfigInputs {
  std::string config_flag = {};  // --config; empty: not given
  std::vector<FlagValue> flags = {};
  Environment environment = {};
  std::filesystem::path system_file = "/etc/mooring/config.yaml";
};

struct Config {
  Settings settings;
  std::vector<std::string> origins;  // of each option, in the order of Options()
  std::filesystem::path file;        // empty: none was read
  std::vector<std::string> warnings;
};

// kUsage for a bad flag, kConfig for anything else.
Result<Config> LoadConfig(const ConfigInputs& inputs);

struct ConfigFile {
  std::filesystem::path path;
  std::string named_by;  // "--config", "MOORING_CONFIG", or empty: found where it is looked for
  bool exists = false;
};

// Where the configuration file is looked for, the one that counts first: a file that somebody
// named, else the places in order.
std::vector<ConfigFile> ConfigFileCandidates(const ConfigInputs& inputs);

// Reads and checks one file as if nothing else were set.
Result<Config> CheckConfigFile(const std::filesystem::path& path);

// A configuration file with every option at its default, as docs/config.example.yaml.
std::string ExampleConfig();

}  // namespace mooring

#endif  // MOORING_APPS_CONFIG_H_
