// Assertions about our own code. A failed CHECK is a fault of this program, never of a user's
// input, so it ends the process with the place and the reason. DCHECK is the same in debug and
// sanitizer builds and nothing in release builds: for hot loops.
#ifndef MOORING_BASE_CHECK_H_
#define MOORING_BASE_CHECK_H_

#include <fmt/core.h>

#include <string>

namespace mooring {

// Prints "file:line: check failed: condition: message" to stderr and aborts.
[[noreturn]] void CheckFailed(const char* file, int line, const char* condition,
                              const std::string& message);

inline std::string CheckMessage() { return {}; }
template <typename... Args>
std::string CheckMessage(fmt::format_string<Args...> format, Args&&... args) {
  return fmt::format(format, std::forward<Args>(args)...);
}

}  // namespace mooring

// CHECK(condition) or CHECK(condition, "format", args...).
#define CHECK(condition, ...)                                       \
  do {                                                              \
    if (!(condition)) [[unlikely]]                                  \
      ::mooring::CheckFailed(__FILE__, __LINE__, #condition,        \
                             ::mooring::CheckMessage(__VA_ARGS__)); \
  } while (false)

#ifdef MOORING_DCHECKS
#define DCHECK(...) CHECK(__VA_ARGS__)
#else
#define DCHECK(...) \
  do {              \
  } while (false)
#endif

#endif  // MOORING_BASE_CHECK_H_
