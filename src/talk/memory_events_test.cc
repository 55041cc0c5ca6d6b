#include "talk/memory_events.h"

#include <gtest/gtest.h>

#include <array>

namespace mooring {
namespace {

const JournalEntry kPlan = {{300}, {{{100}, {260}}, false}};
const JournalEntry kBehindAnchors = {{300}, {{{5}, {9}}, true}};
const JournalEntry kNothingFound = {{int64_t{1} << 40}, {}};
const RecallNote kNote = {{300}, {{100}, {260}}, 2.25};
const SpanVector kVector = {{{40}, {300}}, 0x1234567890ABCDEF, {127, -128, 0, -1}};

TEST(MemoryEventsTest, ComeBackAsTheyWere) {
  const std::array events = {EventOf(kPlan), EventOf(kNote), EventOf(kBehindAnchors),
                             EventOf(kNothingFound), EventOf({300}, kVector)};
  EXPECT_EQ(events[3].at, kNothingFound.message);
  EXPECT_EQ(events[4].at, LogIndex{300});
  const auto notes = NotesOf(events);
  ASSERT_TRUE(notes.ok()) << notes.error().Message();
  EXPECT_EQ(notes->journal, (PlanJournal{kPlan, kBehindAnchors, kNothingFound}));
  EXPECT_EQ(notes->recalled, std::vector{kNote});
  EXPECT_EQ(notes->vectors, std::vector{kVector});
}

TEST(MemoryEventsTest, DamageIsRefused) {
  for (const MemoryEvent& whole : {EventOf(kPlan), EventOf(kNote), EventOf({300}, kVector)}) {
    for (size_t length = 0; length < whole.bytes.size(); ++length) {
      MemoryEvent cut = whole;
      cut.bytes.resize(length);
      EXPECT_FALSE(NotesOf({&cut, 1}).ok()) << length;
    }
    MemoryEvent longer = whole;
    longer.bytes += 'x';
    EXPECT_FALSE(NotesOf({&longer, 1}).ok());
    MemoryEvent other = whole;
    other.bytes[0] = 4;
    const auto refused = NotesOf({&other, 1});
    ASSERT_FALSE(refused.ok());
    EXPECT_EQ(refused.error().kind, ErrorKind::kModelInvalid);
  }
}

}  // namespace
}  // namespace mooring
