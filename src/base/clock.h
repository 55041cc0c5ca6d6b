// Time for measurements and deadlines: monotonic, so a step of the wall clock changes nothing.
#ifndef MOORING_BASE_CLOCK_H_
#define MOORING_BASE_CLOCK_H_

#include <chrono>

namespace mooring {

// Seconds since some fixed moment in the past.
inline double MonotonicSeconds() {
  return std::chrono::duration<double>(std::chrono::steady_clock::now().time_since_epoch()).count();
}

}  // namespace mooring

#endif  // MOORING_BASE_CLOCK_H_
