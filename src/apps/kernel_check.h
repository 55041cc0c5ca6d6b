// Numeric self-tests: the fast tables of kernels against the plain one, on random data.
//
// Thread rule: pure functions.
#ifndef MOORING_APPS_KERNEL_CHECK_H_
#define MOORING_APPS_KERNEL_CHECK_H_

#include <string>
#include <vector>

#include "kernels/kernels.h"

namespace mooring {

struct KernelCheck {
  std::string name;    // "avx2 matmul Q4_1, integer"
  double error = 0.0;  // largest difference, relative to the largest value
  double limit = 0.0;
  bool ok() const { return error <= limit; }  // false for NaN
};

// Matrix products of every format and attention over some pages, `table` against `oracle`.
std::vector<KernelCheck> CompareKernels(const Kernels& table, const Kernels& oracle);

}  // namespace mooring

#endif  // MOORING_APPS_KERNEL_CHECK_H_
