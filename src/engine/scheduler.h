// Which rows the next step has: a pure decision.
//
// A conversation that is generating needs one row and comes first, so that a long prompt never
// stalls others. What is left of the budget is shared among those that read, a page at a time in
// turn, and each step begins one reader later than the last, so that nobody starves, however small
// the budget.
//
// Thread rule: pure function.
#ifndef MOORING_ENGINE_SCHEDULER_H_
#define MOORING_ENGINE_SCHEDULER_H_

#include <cstdint>
#include <span>

namespace mooring {

struct WaitingWork {
  int64_t pending_rows = 0;   // log tokens that are not in the window yet
  bool every_logit = false;   // each of its rows needs a row of logits
  bool wants_logits = false;  // the last pending row needs one
};

struct StepBudget {
  int rows = 0;
  int logit_rows = 0;
  int parts = 0;  // conversations in one step
};

// Writes how many rows each conversation gets into `rows` (same length as `work`). `first` is the
// index that has the first turn; the result is the `first` of the next call.
int ScheduleRows(std::span<const WaitingWork> work, const StepBudget& budget, int first,
                 std::span<int> rows);

}  // namespace mooring

#endif  // MOORING_ENGINE_SCHEDULER_H_
