#include "engine/scheduler.h"

#include <gtest/gtest.h>

#include <vector>

namespace mooring {
namespace {

TEST(Scheduler, RepliesComeBeforeLongPrompts) {
  const std::vector<WaitingWork> work = {
      {.pending_rows = 5000}, {.pending_rows = 1, .wants_logits = true}, {}};
  std::vector<int> rows(3);
  ScheduleRows(work, {.rows = 64, .logit_rows = 4, .parts = 8}, 0, rows);
  EXPECT_EQ(rows, (std::vector<int>{63, 1, 0}));
}

// The rows that each of `work` has had after `steps` steps.
std::vector<int64_t> RowsServed(const std::vector<WaitingWork>& work, const StepBudget& budget,
                                int steps) {
  std::vector<int64_t> served(work.size());
  std::vector<int> rows(work.size());
  int first = 0;
  for (int step = 0; step < steps; ++step) {
    first = ScheduleRows(work, budget, first, rows);
    for (size_t i = 0; i < rows.size(); ++i) served[i] += rows[i];
  }
  return served;
}

TEST(Scheduler, ReadersShareAnyBudgetAndNobodyStarves) {
  constexpr int kSteps = 2000;
  for (int readers = 1; readers <= 7; ++readers) {
    for (const int replies : {0, 1, 3}) {
      std::vector<WaitingWork> work(static_cast<size_t>(readers), {.pending_rows = 1 << 20});
      // Replies stand between the readers: they must not lend their turn to a neighbour.
      for (int i = 0; i < replies; ++i) {
        work.insert(work.begin() + std::min(2 * i, readers), {.pending_rows = 1});
      }
      for (const int budget : {1, 2, 5, 14, 16, 17, 61, 64, 100}) {
        SCOPED_TRACE(testing::Message() << readers << " readers, " << replies << " replies, "
                                        << budget << " rows beside them");
        const auto served =
            RowsServed(work, {.rows = budget + replies, .logit_rows = 8, .parts = 16}, kSteps);
        for (size_t i = 0; i < work.size(); ++i) {
          if (work[i].pending_rows == 1) {
            EXPECT_EQ(served[i], kSteps);
          } else {
            const double share = static_cast<double>(kSteps) * budget / readers;
            EXPECT_NEAR(static_cast<double>(served[i]), share, 0.25 * share) << "reader " << i;
          }
        }
      }
    }
  }
}

TEST(Scheduler, MoreRepliesThanRoomShareIt) {
  for (const StepBudget& budget : {StepBudget{.rows = 3, .logit_rows = 64, .parts = 64},
                                   StepBudget{.rows = 64, .logit_rows = 3, .parts = 64},
                                   StepBudget{.rows = 64, .logit_rows = 64, .parts = 3}}) {
    const std::vector<WaitingWork> work(5, {.pending_rows = 1, .wants_logits = true});
    for (const int64_t served : RowsServed(work, budget, 1000)) EXPECT_NEAR(served, 600, 6);
  }
}

TEST(Scheduler, LogitRowsAreALimit) {
  const std::vector<WaitingWork> all = {{.pending_rows = 100, .every_logit = true}};
  std::vector<int> rows(1);
  ScheduleRows(all, {.rows = 64, .logit_rows = 10, .parts = 8}, 0, rows);
  EXPECT_EQ(rows[0], 10);

  // A prompt whose last row finds no logits left keeps that row for the next step.
  const std::vector<WaitingWork> mixed = {{.pending_rows = 100, .every_logit = true},
                                          {.pending_rows = 5, .wants_logits = true}};
  std::vector<int> both(2);
  ScheduleRows(mixed, {.rows = 64, .logit_rows = 10, .parts = 8}, 0, both);
  EXPECT_EQ(both, (std::vector<int>{10, 4}));
}

TEST(Scheduler, PartsAreALimit) {
  const std::vector<WaitingWork> work(5, {.pending_rows = 1, .wants_logits = true});
  std::vector<int> rows(5);
  ScheduleRows(work, {.rows = 64, .logit_rows = 64, .parts = 3}, 2, rows);
  EXPECT_EQ(rows, (std::vector<int>{0, 0, 1, 1, 1}));
}

TEST(Scheduler, NothingToDo) {
  std::vector<int> rows(2, 7);
  ScheduleRows(std::vector<WaitingWork>(2), {.rows = 8, .logit_rows = 8, .parts = 8}, 1, rows);
  EXPECT_EQ(rows, (std::vector<int>{0, 0}));
  EXPECT_EQ(ScheduleRows({}, {.rows = 8, .logit_rows = 8, .parts = 8}, 5, {}), 0);
}

}  // namespace
}  // namespace mooring
