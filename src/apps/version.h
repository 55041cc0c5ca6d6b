// The version of this program.
//
// Thread rule: a constant.
#ifndef MOORING_APPS_VERSION_H_
#define MOORING_APPS_VERSION_H_

#include <string_view>

namespace mooring {

inline constexpr std::string_view kVersion = "0.1.0";

}  // namespace mooring

#endif  // MOORING_APPS_VERSION_H_
