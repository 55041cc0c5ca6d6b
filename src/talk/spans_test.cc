#include "talk/spans.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace mooring {
namespace {

using testing::ElementsAre;
using testing::IsEmpty;

LogRange Range(int64_t from, int64_t to) { return {{from}, {to}}; }

// A message whose text has 3 tokens of marks before it and 2 behind it.
MessageRange Message(std::string_view role, int64_t from, int64_t to) {
  return {role, Range(from, to), Range(from + 3, to - 2)};
}

TEST(SpansTest, OneRoundIsOneSpan) {
  EXPECT_THAT(CutSpans({}), IsEmpty());
  const std::vector<MessageRange> messages = {Message("user", 0, 20), Message("assistant", 20, 60),
                                              Message("user", 60, 80)};
  EXPECT_THAT(CutSpans(messages), ElementsAre(Range(0, 60), Range(60, 80)));
}

TEST(SpansTest, SystemTextAndOddOrders) {
  const std::vector<MessageRange> with_system = {Message("system", 0, 30), Message("user", 0, 30),
                                                 Message("assistant", 30, 40)};
  EXPECT_THAT(CutSpans(with_system), ElementsAre(Range(0, 40)));
  const std::vector<MessageRange> answers_first = {Message("assistant", 0, 10),
                                                   Message("assistant", 10, 25)};
  EXPECT_THAT(CutSpans(answers_first), ElementsAre(Range(0, 25)));
  // A message that was stopped before its answer, and an answer of no tokens.
  const std::vector<MessageRange> stopped = {
      Message("user", 5, 15), Message("user", 15, 25), {"assistant", Range(25, 25), Range(25, 25)}};
  EXPECT_THAT(CutSpans(stopped), ElementsAre(Range(5, 15), Range(15, 25)));
  const std::vector<MessageRange> only_system = {Message("system", 0, 30)};
  EXPECT_THAT(CutSpans(only_system), IsEmpty());
}

TEST(SpansTest, CutsLongRoundsAtPageBorders) {
  const auto cut = [](int64_t tokens) {
    return CutSpans(std::vector<MessageRange>{Message("user", 7, 7 + tokens)});
  };
  EXPECT_THAT(cut(192), ElementsAre(Range(7, 199)));
  // 13 pages: 7 and 6, the last not full.
  EXPECT_THAT(cut(193), ElementsAre(Range(7, 119), Range(119, 200)));
  for (int64_t tokens = 1; tokens < 2000; ++tokens) {
    const std::vector<LogRange> spans = cut(tokens);
    ASSERT_EQ(spans.size(), static_cast<size_t>((tokens + 191) / 192)) << tokens;
    int64_t end = 7;
    int64_t shortest = kMaxSpanTokens;
    int64_t longest = 0;
    for (const LogRange& span : spans) {
      ASSERT_EQ(span.from.value, end);
      ASSERT_EQ((span.from.value - 7) % kSpanPageTokens, 0);
      end = span.to.value;
      shortest = std::min(shortest, span.tokens());
      longest = std::max(longest, span.tokens());
    }
    ASSERT_EQ(end, 7 + tokens);
    ASSERT_LE(longest, kMaxSpanTokens);
    ASSERT_LT(longest - shortest, 2 * kSpanPageTokens) << tokens;
  }
}

TEST(SpansTest, FindsWhatWasSaidInASpan) {
  const std::vector<MessageRange> messages = {Message("system", 0, 40), Message("user", 0, 40),
                                              Message("assistant", 40, 300)};
  EXPECT_THAT(TextIn(Range(0, 160), messages),
              ElementsAre(SaidRange{"user", Range(3, 38)}, SaidRange{"assistant", Range(43, 160)}));
  EXPECT_THAT(TextIn(Range(160, 300), messages),
              ElementsAre(SaidRange{"assistant", Range(160, 298)}));
  EXPECT_THAT(TextIn(Range(38, 43), messages), IsEmpty());
}

}  // namespace
}  // namespace mooring
