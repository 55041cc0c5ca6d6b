// A YAML file as a flat list of keys: `memory: {policy: sinks}` is memory.policy = sinks.
//
// Refused, with the line: anchors and aliases, tags, duplicate keys, keys that are not plain text,
// lists of anything but texts, more than one document, and anything beyond the limits (1 MiB, 8
// levels, 4,096 keys).
//
// Thread rule: pure function.
#ifndef MOORING_APPS_YAML_FILE_H_
#define MOORING_APPS_YAML_FILE_H_

#include <cstdint>
#include <string>
#include <vector>

#include "apps/options.h"
#include "base/result.h"

namespace mooring {

inline constexpr uint64_t kMaxYamlBytes = 1 << 20;

struct YamlEntry {
  std::string key;    // with dots
  RawValue value;     // kMap for an empty map only
  std::string where;  // "config.yaml:3"
};

// `name` is for messages. Errors are kConfig.
Result<std::vector<YamlEntry>> ParseYaml(const std::string& text, const std::string& name);

}  // namespace mooring

#endif  // MOORING_APPS_YAML_FILE_H_
