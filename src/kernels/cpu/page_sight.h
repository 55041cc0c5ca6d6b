// What rows see of a page and by how much their queries turn to meet it, worked out in code built
// for any x86: the vector files may not call inline functions of shared headers (cpu.h says why).
//
// Thread rule: pure functions.
#ifndef MOORING_KERNELS_CPU_PAGE_SIGHT_H_
#define MOORING_KERNELS_CPU_PAGE_SIGHT_H_

#include "kernels/kernels.h"

namespace mooring {

// A rotation: `half_dim` pairs; nothing turns when it is 0.
struct HeadTurn {
  const float* cosines = nullptr;  // [half_dim]
  const float* sines = nullptr;    // [half_dim]
  int half_dim = 0;
};

// `turn` steps of a table that may be null.
HeadTurn TurnBy(const RotaryTable* rotary, int32_t turn);

// One row's view of one page: slots [first, last], none when first > last, and its query's turn.
struct PageSight {
  int first = 0;
  int last = -1;
  HeadTurn turn;
};
PageSight SightOf(const AttendTask& task, const PageRef& page, int row);

}  // namespace mooring

#endif  // MOORING_KERNELS_CPU_PAGE_SIGHT_H_
