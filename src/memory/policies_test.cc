#include <gtest/gtest.h>

#include <vector>

#include "memory/policy.h"
#include "memory/window.h"
#include "tensor/kv_view.h"

namespace mooring {
namespace {

std::vector<PageFacts> Pages(int64_t first, int count, uint16_t last_used) {
  std::vector<PageFacts> pages;
  for (int i = 0; i < count; ++i) {
    pages.push_back({{first + i * kPageSlots}, i + 1 == count ? last_used : uint16_t{kPageSlots}});
  }
  return pages;
}

// Of a window without spans before `next`.
WindowFacts FactsAt(const WindowShape& shape, LogIndex next, std::span<const PageFacts> pages) {
  return {.shape = shape,
          .next = next,
          .pages = pages,
          .seen_from = std::max(LogIndex{shape.anchors}, next - shape.recent())};
}

TEST(Sinks, DropsOnlyPagesNoRowCanSeeAnyMore) {
  const Policy* sinks = *FindPolicy("sinks");
  Arena arena(1024);
  const WindowShape shape = {.capacity = 4 + 32 + 1, .anchors = 4};
  const std::vector<PageFacts> pages = Pages(4, 5, kPageSlots);  // log indices 4 to 83
  // The first page ends at 19; it goes once `next` - 32 - kRewindSlots is behind that.
  const LogIndex last_keeping = {19 + 32 + kRewindSlots};
  EXPECT_TRUE(sinks->Propose(FactsAt(shape, last_keeping, pages), arena).drop.empty());
  const Plan plan = sinks->Propose(FactsAt(shape, last_keeping + 1, pages), arena);
  ASSERT_EQ(plan.drop.size(), 1U);
  EXPECT_EQ(plan.drop[0].head, kEveryHead);
  EXPECT_EQ(plan.drop[0].page, 0U);
  EXPECT_EQ(sinks->RoomFor(FactsAt(shape, last_keeping, pages)), INT64_MAX);
}

TEST(Sinks, NeverDropsThePageThatIsBeingFilled) {
  const Policy* sinks = *FindPolicy("sinks");
  Arena arena(1024);
  const std::vector<PageFacts> pages = Pages(0, 1, 3);
  EXPECT_TRUE(
      sinks->Propose(FactsAt({.capacity = 2, .anchors = 0}, {1000}, pages), arena).drop.empty());
}

TEST(Dense, KeepsEverythingAndSaysHowMuchRoomIsLeft) {
  const Policy* dense = *FindPolicy("dense");
  Arena arena(64);
  const std::vector<PageFacts> pages = Pages(4, 9, kPageSlots);
  const WindowFacts facts = FactsAt({.capacity = 200, .anchors = 4}, {148}, pages);
  EXPECT_TRUE(dense->Propose(facts, arena).drop.empty());
  EXPECT_EQ(dense->RoomFor(facts), 52);
}

// A conversation of 100 tokens behind 4 anchors, all of its pages full but the last.
class RecallPolicy : public testing::Test {
 protected:
  Plan Propose(std::span<const RecalledSpan> held, std::span<const OfferedSpan> offered) {
    WindowFacts facts = FactsAt(shape_, {104}, pages_);
    facts.recalled = held;
    facts.message_start = true;
    facts.offered = offered;
    arena_.Reset();
    return recall_->Propose(facts, arena_);
  }

  const WindowShape shape_ = {
      .capacity = 4 + 80 + 1, .anchors = 4, .expire_by_page = false, .recalled = 40};
  const std::vector<PageFacts> pages_ = Pages(4, 7, 4);
  const Policy* recall_ = *FindPolicy("recall");
  Arena arena_{4096};
};

TEST_F(RecallPolicy, IsSinksWhereNothingIsFound) {
  const Plan plan = Propose({}, {});
  EXPECT_TRUE(plan.recall.empty() && plan.release.empty() && plan.drop.empty());
}

TEST_F(RecallPolicy, TakesTheBestThatFitAndDropsWhatTheyPushOut) {
  const OfferedSpan offered[] = {
      {{{10}, {20}}, false}, {{{20}, {50}}, true}, {{{60}, {68}}, false}};
  const Plan plan = Propose({}, offered);
  ASSERT_EQ(plan.recall.size(), 2U);  // 8 + 30 slots; 10 more do not fit
  EXPECT_EQ(plan.recall[0], offered[1]);
  EXPECT_EQ(plan.recall[1], offered[2]);
  // The row at 104 sees from 104 - (80 - 38) = 62 on: pages up to 51 go.
  ASSERT_EQ(plan.drop.size(), 3U);
}

TEST_F(RecallPolicy, WhatIsAskedForNowGoesBeforeWhatStayed) {
  const RecalledSpan held[] = {{.range = {{10}, {42}}, .landed = {90}, .messages = 0},
                               {.range = {{60}, {68}}, .landed = {90}, .messages = 0}};
  const OfferedSpan offered[] = {{{{70}, {86}}, false}};
  const Plan plan = Propose(held, offered);
  ASSERT_EQ(plan.recall.size(), 1U);
  EXPECT_EQ(plan.recall[0].range, offered[0].range);
  ASSERT_EQ(plan.release.size(), 1U);
  EXPECT_EQ(plan.release[0], 0U) << "the other one still fits";
  EXPECT_TRUE(plan.refresh.empty());
}

TEST_F(RecallPolicy, KeepsASpanForOneMoreMessageOrWhileItIsAskedFor) {
  const RecalledSpan held[] = {{.range = {{10}, {20}}, .landed = {80}, .messages = 1},
                               {.range = {{20}, {30}}, .landed = {90}, .messages = 0},
                               {.range = {{30}, {40}}, .landed = {80}, .messages = 1}};
  const OfferedSpan offered[] = {{{{30}, {38}}, false}};
  const Plan plan = Propose(held, offered);
  ASSERT_EQ(plan.release.size(), 1U);
  EXPECT_EQ(plan.release[0], 0U);
  ASSERT_EQ(plan.refresh.size(), 1U);
  EXPECT_EQ(plan.refresh[0], 2U);
  EXPECT_TRUE(plan.recall.empty());
}

TEST(Policies, UnknownNamesTheKnown) {
  const auto found = FindPolicy("lru");
  ASSERT_FALSE(found.ok());
  EXPECT_NE(found.error().Message().find("recall, sinks, dense"), std::string::npos);
}

TEST(WindowShape, RefusesWhatCannotBe) {
  EXPECT_TRUE(CheckWindowShape({.capacity = 6, .anchors = 4}).ok());
  EXPECT_FALSE(CheckWindowShape({.capacity = 5, .anchors = 4}).ok());
  EXPECT_FALSE(CheckWindowShape({.capacity = 5, .anchors = -1}).ok());
  const auto with_recalled = [](int32_t recalled) {
    return CheckWindowShape(
        {.capacity = 105, .anchors = 4, .expire_by_page = false, .recalled = recalled});
  };
  EXPECT_TRUE(with_recalled(50).ok());
  EXPECT_FALSE(with_recalled(51).ok());
  EXPECT_FALSE(with_recalled(-1).ok());
}

TEST(Window, TheLastTokensCanAlwaysBeTakenBack) {
  const PageLayout layout = {DType::kF16, 32};
  auto pool = std::move(PagePool::Create(layout.page_bytes(), 64)).value();
  Arena arena(4096);
  for (const WindowShape shape :
       {WindowShape{.capacity = 2, .anchors = 0}, WindowShape{.capacity = 40, .anchors = 4}}) {
    Window window(shape, layout, 1, 1, 20, pool.get());
    std::vector<RowPlace> places(20);
    for (int i = 0; i < 60; ++i) {
      arena.Reset();
      window.Apply((*FindPolicy("sinks"))->Propose(window.Facts(), arena));
      ASSERT_TRUE(window.Extend(1 + i % 20, places));
      window.Commit();
      EXPECT_GE(window.RewindBound(), std::min<int64_t>(window.next().value, kRewindSlots));
    }
    window.Rewind(kRewindSlots);
  }
}

// A window of two layers with two spans, and its bytes.
class WindowSnapshot : public testing::Test {
 protected:
  static constexpr WindowShape kShape = {
      .capacity = 90, .anchors = 4, .expire_by_page = false, .recalled = 30};
  static constexpr PageLayout kLayout = {DType::kF16, 32};

  void SetUp() override {
    pool_ = std::move(PagePool::Create(kLayout.page_bytes(), 512)).value();
    Window window(kShape, kLayout, 2, 1, 20, pool_.get());
    for (int i = 0; i < 6; ++i) Read(&window, 19);
    const OfferedSpan offered[] = {{{{5}, {25}}, false}, {{{40}, {47}}, true}};
    WindowFacts facts = window.Facts();
    facts.message_start = true;
    facts.offered = offered;
    const Plan plan = recall_->Propose(facts, arena_);
    ASSERT_EQ(plan.recall.size(), 2U);
    std::vector<Window> reread;
    for (const OfferedSpan& span : plan.recall) {
      reread.push_back(window.AnchorsAlone());
      ASSERT_TRUE(reread.back().Extend(static_cast<int>(span.range.tokens()), places_));
      reread.back().Commit();
    }
    window.Apply(plan, true, reread);
    Read(&window, 9);
    window.AppendSnapshot(&bytes_);
  }

  void Read(Window* window, int rows) {
    arena_.Reset();
    window->Apply(recall_->Propose(window->Facts(), arena_));
    ASSERT_TRUE(window->Extend(rows, places_));
    ExpectSane(*window, rows);
    window->Commit();
  }
  // Whatever the rows see lies in pages that are held, at a turn that the table of angles has.
  void ExpectSane(const Window& window, int rows) {
    for (const KvHeadView& head : window.View().heads) {
      for (int row = 0; row < rows; ++row) {
        const RowPlace& place = places_[static_cast<size_t>(row)];
        ASSERT_LE(static_cast<size_t>(place.pages_from_end), head.pages.size());
        for (const PageRef& page : head.pages) {
          if (VisibleSlots(page, place).empty()) continue;
          const int32_t turn = QueryTurn(place.query, page.query_cap, page.base);
          ASSERT_GE(turn, 0);
          ASSERT_LT(turn, WindowTurnCount(kShape));
        }
      }
    }
  }
  bool Restore(const std::string& from) {
    Window window(kShape, kLayout, 2, 1, 20, pool_.get());
    const bool ok = window.RestoreSnapshot(std::as_bytes(std::span(from))).ok();
    EXPECT_TRUE(ok || window.held_pages() == 0);
    if (ok) {
      window.Rewind(static_cast<int>(std::min<int64_t>(window.RewindBound(), kRewindSlots)));
      for (int i = 0; i < 8; ++i) Read(&window, 17);
    }
    return ok;
  }

  const Policy* recall_ = *FindPolicy("recall");
  Arena arena_{1 << 16};
  std::vector<RowPlace> places_ = std::vector<RowPlace>(20);
  std::unique_ptr<PagePool> pool_;
  std::string bytes_;
};

TEST_F(WindowSnapshot, EveryDamageIsRefusedOrHarmless) {
  EXPECT_TRUE(Restore(bytes_));
  // What the shape and the list of pages fix; page content is guarded by the file's checksums.
  constexpr size_t kShapeBytes = 36;
  constexpr size_t kListBytes = 72 + 2 * 32 + 8 * 16;
  for (size_t i = 0; i < kListBytes; ++i) {
    for (int bit = 0; bit < 8; ++bit) {
      std::string bad = bytes_;
      bad[i] = static_cast<char>(bad[i] ^ (1 << bit));
      const bool restored = Restore(bad);
      EXPECT_TRUE(!restored || i >= kShapeBytes) << "byte " << i << " bit " << bit;
      ASSERT_FALSE(HasFatalFailure()) << "byte " << i << " bit " << bit;
    }
  }
  for (size_t length = 0; length < bytes_.size(); length += 13) {
    EXPECT_FALSE(Restore(bytes_.substr(0, length)));
  }
  EXPECT_FALSE(Restore(bytes_ + "x"));
  EXPECT_EQ(pool_->free_count(), pool_->page_count());
}

}  // namespace
}  // namespace mooring
