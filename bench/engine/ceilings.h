// What the machine gives at the most, measured: what the figures of a case are held against.
//
// Thread rule: as Backend's pool.
#ifndef MOORING_BENCH_ENGINE_CEILINGS_H_
#define MOORING_BENCH_ENGINE_CEILINGS_H_

#include "kernels/backend.h"

namespace mooring {

struct Ceilings {
  double gb_per_second = 0;    // all threads read memory that no cache holds
  double gmac_per_second = 0;  // all threads multiply, operands in the first cache: what the
                               // kernel can do, not the machine's peak on paper
};

// The best of several rounds, of `matmul` on weights of `format`; takes less than a second and,
// meanwhile, 128 MiB. REQUIRES: a function of the backend's table for that format.
Ceilings MeasureCeilings(Backend& backend, DType format, MatmulFunction matmul);

}  // namespace mooring

#endif  // MOORING_BENCH_ENGINE_CEILINGS_H_
