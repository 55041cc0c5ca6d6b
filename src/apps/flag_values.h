// Values of flags that belong to one command, checked.
//
// Thread rule: pure functions.
#ifndef MOORING_APPS_FLAG_VALUES_H_
#define MOORING_APPS_FLAG_VALUES_H_

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "apps/command.h"
#include "base/result.h"

namespace mooring {

// The whole number after a flag, or `fallback` when the flag was not given. kUsage with the limits
// otherwise.
Result<int64_t> IntegerFlag(const CommandContext& context, std::string_view flag, int64_t fallback,
                            int64_t low, int64_t high);

// The numbers of a comma-separated list, or `fallback`.
Result<std::vector<int64_t>> IntegersFlag(const CommandContext& context, std::string_view flag,
                                          std::vector<int64_t> fallback, int64_t low, int64_t high);

// The words of a comma-separated list; none when the flag was not given.
std::vector<std::string> WordsFlag(const CommandContext& context, std::string_view flag);

}  // namespace mooring

#endif  // MOORING_APPS_FLAG_VALUES_H_
