// How often something took how long, as Prometheus counts it.
//
// Thread rule: one at a time.
#ifndef MOORING_SERVE_HISTOGRAM_H_
#define MOORING_SERVE_HISTOGRAM_H_

#include <algorithm>
#include <array>
#include <cstddef>
#include <cstdint>

namespace mooring {

struct Histogram {
  // From a token of a small model to the first word behind a long text.
  static constexpr std::array<double, 14> kBounds = {
      0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 10.0, 30.0, 120.0};
  std::array<int64_t, kBounds.size() + 1> counts = {};  // the last: beyond every bound
  double seconds = 0.0;                                 // of all

  void Note(double each, int64_t times = 1) {
    const auto* const at = std::lower_bound(kBounds.begin(), kBounds.end(), each);
    counts[static_cast<size_t>(at - kBounds.begin())] += times;
    seconds += each * static_cast<double>(times);
  }
};

}  // namespace mooring

#endif  // MOORING_SERVE_HISTOGRAM_H_
