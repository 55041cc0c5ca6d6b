#include "base/result.h"

#include <fmt/format.h>

namespace mooring {

std::string Error::Message() const {
  std::string message = what;
  if (!where.empty()) message += fmt::format(" ({})", where);
  if (!expected.empty() && !found.empty()) {
    message += fmt::format(": expected {}, found {}", expected, found);
  } else if (!expected.empty()) {
    message += fmt::format(": expected {}", expected);
  } else if (!found.empty()) {
    message += fmt::format(": found {}", found);
  }
  if (!remedy.empty()) message += fmt::format("; {}", remedy);
  return message;
}

}  // namespace mooring
