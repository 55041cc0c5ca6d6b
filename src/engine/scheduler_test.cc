#include "engine/scheduler.h"

#include <gtest/gtest.h>

#include <numeric>
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

TEST(Scheduler, ReadersShareAndNobodyStarves) {
  std::vector<WaitingWork> work(10, {.pending_rows = 1000});
  std::vector<int64_t> served(10, 0);
  int first = 0;
  for (int step = 0; step < 100; ++step) {
    std::vector<int> rows(10);
    first = ScheduleRows(work, {.rows = 20, .logit_rows = 4, .parts = 8}, first, rows);
    EXPECT_EQ(std::accumulate(rows.begin(), rows.end(), 0), 20);
    for (size_t i = 0; i < rows.size(); ++i) served[i] += rows[i];
  }
  for (const int64_t count : served) EXPECT_NEAR(static_cast<double>(count), 200, 40);
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
