// The program's log: one line per event on stderr, never prompt text. Wraps spdlog so that the
// level and format are set in one place.
//
// Thread rule: everything here may be called from any thread.
#ifndef MOORING_BASE_LOG_H_
#define MOORING_BASE_LOG_H_

#include <spdlog/spdlog.h>

#include <string_view>

#include "base/result.h"

namespace mooring {

// `level`: trace, debug, info, warn, error or off. Called once at start.
Status SetUpLog(std::string_view level, bool color);

}  // namespace mooring

#endif  // MOORING_BASE_LOG_H_
