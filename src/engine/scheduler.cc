#include "engine/scheduler.h"

#include <algorithm>

#include "base/check.h"
#include "tensor/kv_view.h"

namespace mooring {
namespace {

// What is left of a budget while rows are handed out.
class Remaining {
 public:
  explicit Remaining(const StepBudget& budget) : left_(budget) {}

  // Gives up to `wanted` more rows to a conversation that has `*rows` already; says how many.
  int Give(const WaitingWork& work, int wanted, int* rows) {
    if (*rows == 0 && left_.parts == 0) return 0;
    const int64_t pending = work.pending_rows - *rows;
    int count = static_cast<int>(std::min<int64_t>(pending, std::min(wanted, left_.rows)));
    if (work.every_logit) {
      count = std::min(count, left_.logit_rows);
    } else if (work.wants_logits && count == pending && left_.logit_rows == 0) {
      --count;  // the last row waits for a step that has a row of logits for it
    }
    if (count <= 0) return 0;
    if (work.every_logit) {
      left_.logit_rows -= count;
    } else if (work.wants_logits && count == pending) {
      --left_.logit_rows;
    }
    if (*rows == 0) --left_.parts;
    left_.rows -= count;
    *rows += count;
    return count;
  }

 private:
  StepBudget left_;
};

}  // namespace

int ScheduleRows(std::span<const WaitingWork> work, const StepBudget& budget, int first,
                 std::span<int> rows) {
  CHECK(work.size() == rows.size());
  std::ranges::fill(rows, 0);
  const auto count = static_cast<int>(work.size());
  if (count == 0) return 0;
  first %= count;
  Remaining remaining(budget);
  const auto at = [&](int turn) { return static_cast<size_t>((first + turn) % count); };
  int next_first = first;
  // Replies under way first. One that finds no room leads the next step.
  bool refused = false;
  for (int turn = 0; turn < count; ++turn) {
    const size_t i = at(turn);
    if (work[i].pending_rows != 1 || remaining.Give(work[i], 1, &rows[i]) > 0 || refused) continue;
    refused = true;
    next_first = static_cast<int>(i);
  }
  // Then whoever reads, a page in turn, until nothing more can be given. The reader behind the one
  // that led this step leads the next: the last one served may have been cut short.
  bool led = refused;
  for (bool given = true; given;) {
    given = false;
    for (int turn = 0; turn < count; ++turn) {
      const size_t i = at(turn);
      if (work[i].pending_rows <= rows[i]) continue;
      if (remaining.Give(work[i], kPageSlots, &rows[i]) == 0) continue;
      given = true;
      if (!led) next_first = (static_cast<int>(i) + 1) % count;
      led = true;
    }
  }
  return next_first;
}

}  // namespace mooring
