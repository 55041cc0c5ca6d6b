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

TEST(Sinks, DropsOnlyPagesNoRowCanSeeAnyMore) {
  const Policy* sinks = *FindPolicy("sinks");
  Arena arena(1024);
  const WindowShape shape = {.capacity = 4 + 32 + 1, .anchors = 4};
  const std::vector<PageFacts> pages = Pages(4, 5, kPageSlots);  // log indices 4 to 83
  // The first page ends at 19; it goes once `next` - 32 - kRewindSlots is behind that.
  const LogIndex last_keeping = {19 + 32 + kRewindSlots};
  EXPECT_TRUE(sinks->Propose({shape, last_keeping, pages}, arena).drop.empty());
  const Plan plan = sinks->Propose({shape, last_keeping + 1, pages}, arena);
  ASSERT_EQ(plan.drop.size(), 1U);
  EXPECT_EQ(plan.drop[0].head, kEveryHead);
  EXPECT_EQ(plan.drop[0].page, 0U);
  EXPECT_EQ(sinks->RoomFor({shape, last_keeping, pages}), INT64_MAX);
}

TEST(Sinks, NeverDropsThePageThatIsBeingFilled) {
  const Policy* sinks = *FindPolicy("sinks");
  Arena arena(1024);
  const std::vector<PageFacts> pages = Pages(0, 1, 3);
  EXPECT_TRUE(sinks->Propose({{.capacity = 2, .anchors = 0}, {1000}, pages}, arena).drop.empty());
}

TEST(Dense, KeepsEverythingAndSaysHowMuchRoomIsLeft) {
  const Policy* dense = *FindPolicy("dense");
  Arena arena(64);
  const std::vector<PageFacts> pages = Pages(4, 9, kPageSlots);
  const WindowFacts facts = {{.capacity = 200, .anchors = 4}, {148}, pages};
  EXPECT_TRUE(dense->Propose(facts, arena).drop.empty());
  EXPECT_EQ(dense->RoomFor(facts), 52);
}

TEST(Policies, UnknownNamesTheKnown) {
  const auto found = FindPolicy("lru");
  ASSERT_FALSE(found.ok());
  EXPECT_NE(found.error().Message().find("sinks, dense"), std::string::npos);
}

TEST(WindowShape, RefusesWhatCannotBe) {
  EXPECT_TRUE(CheckWindowShape({.capacity = 6, .anchors = 4}).ok());
  EXPECT_FALSE(CheckWindowShape({.capacity = 5, .anchors = 4}).ok());
  EXPECT_FALSE(CheckWindowShape({.capacity = 5, .anchors = -1}).ok());
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

TEST(WindowSnapshot, EveryDamageIsRefusedOrHarmless) {
  const PageLayout layout = {DType::kF16, 32};
  auto pool = std::move(PagePool::Create(layout.page_bytes(), 64)).value();
  const WindowShape shape = {.capacity = 40, .anchors = 4};
  Arena arena(4096);
  std::string bytes;
  {
    Window window(shape, layout, 2, 1, 20, pool.get());
    std::vector<RowPlace> places(20);
    for (int i = 0; i < 5; ++i) {
      window.Apply((*FindPolicy("sinks"))->Propose(window.Facts(), arena));
      ASSERT_TRUE(window.Extend(20, places));
      window.Commit();
    }
    window.AppendSnapshot(&bytes);
  }
  const auto restore = [&](const std::string& from) {
    Window window(shape, layout, 2, 1, 20, pool.get());
    const bool ok = window.RestoreSnapshot(std::as_bytes(std::span(from))).ok();
    EXPECT_TRUE(ok || window.held_pages() == 0);
    return ok;
  };
  EXPECT_TRUE(restore(bytes));
  constexpr size_t kHeaderBytes = 56;
  constexpr size_t kNextByte = 32;             // up to a page of tokens more or less: the log tells
  for (size_t i = 0; i < kHeaderBytes; ++i) {  // page content is guarded by the file's checksums
    if (i == kNextByte) continue;
    for (int bit = 0; bit < 8; ++bit) {
      std::string bad = bytes;
      bad[i] = static_cast<char>(bad[i] ^ (1 << bit));
      EXPECT_FALSE(restore(bad)) << "byte " << i << " bit " << bit;
    }
  }
  for (size_t length = 0; length < bytes.size(); length += 13) {
    EXPECT_FALSE(restore(bytes.substr(0, length)));
  }
  EXPECT_FALSE(restore(bytes + "x"));
  EXPECT_EQ(pool->free_count(), pool->page_count());
}

}  // namespace
}  // namespace mooring
