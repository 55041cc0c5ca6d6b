#include "text/detokenizer.h"

#include <gtest/gtest.h>

#include <random>

#include "text/stop_strings.h"
#include "text/test_vocab.h"
#include "text/utf8.h"

namespace mooring {
namespace {

// In the tiny vocabulary a byte's id is the byte.
std::string Show(const Tokenizer& tokenizer, std::string_view bytes) {
  Detokenizer stream(tokenizer);
  std::string text;
  for (const char c : bytes) text += stream.Push(static_cast<uint8_t>(c));
  return text + stream.Flush();
}

TEST(Utf8, ValidAsUnicodeSays) {
  EXPECT_TRUE(IsValidUtf8("a\xC3\xA9\xE6\x97\xA5\xF0\x9F\x98\x80\xF4\x8F\xBF\xBF\xEF\xBF\xBF"));
  for (const char* bad :
       {"\xC0\x80", "\xC1\xBF", "\xE0\x9F\xBF", "\xED\xA0\x80", "\xF0\x8F\xBF\xBF",
        "\xF4\x90\x80\x80", "\xF5", "\x80", "\xE6\x97", "\xC3"}) {
    EXPECT_FALSE(IsValidUtf8(bad)) << bad;
  }
  EXPECT_EQ(CountUtf8("a\xC3\xA9\xFF"), 3U);
}

TEST(Detokenizer, HoldsACharacterUntilItIsWhole) {
  const auto tokenizer = MakeTokenizer(TinyVocab());
  Detokenizer stream(*tokenizer);
  EXPECT_EQ(stream.Push(0xF0), "");
  EXPECT_EQ(stream.Push(0x9F), "");
  EXPECT_EQ(stream.Push(0x98), "");
  EXPECT_EQ(stream.held_bytes(), 3U);
  EXPECT_EQ(stream.Push(259), "");  // a control token gives no text and disturbs nothing
  EXPECT_EQ(stream.Push(0x80), "\xF0\x9F\x98\x80");
  EXPECT_EQ(stream.held_bytes(), 0U);
  EXPECT_EQ(stream.Flush(), "");
}

// Expected: what Python's decode(errors="replace") gives.
TEST(Detokenizer, ReplacesWhatCanNeverBecomeACharacter) {
  const auto tokenizer = MakeTokenizer(TinyVocab());
  const std::string r(kReplacementCharacter);
  EXPECT_EQ(Show(*tokenizer,
                 "a\xFF"
                 "b"),
            "a" + r + "b");
  EXPECT_EQ(Show(*tokenizer,
                 "\xF0\x9F"
                 "b"),
            r + "b");
  EXPECT_EQ(Show(*tokenizer, "\xED\xA0\x80"), r + r + r);
  EXPECT_EQ(Show(*tokenizer, "\xC0\x80"), r + r);
  EXPECT_EQ(Show(*tokenizer, "\xE6\x97"), r);
  EXPECT_EQ(Show(*tokenizer, "\xF4\x90\x80\x80"), r + r + r + r);
  EXPECT_EQ(Show(*tokenizer, "\xE6\xE6\x97\xA5"), r + "\xE6\x97\xA5");
  Detokenizer stream(*tokenizer);
  EXPECT_EQ(stream.Push(0xFF), r);  // at once
}

TEST(Detokenizer, SpecialTokensOnlyOnRequest) {
  const auto tokenizer = MakeTokenizer(TinyVocab());
  Detokenizer shown(*tokenizer, /*show_special=*/true);
  EXPECT_EQ(shown.Push(259), "<a>");
  Detokenizer hidden(*tokenizer);
  EXPECT_EQ(hidden.Push(259), "");
  EXPECT_EQ(hidden.Push(261), "<u>");
  EXPECT_EQ(hidden.Push(-1), "");
  EXPECT_EQ(hidden.Push(262), "");
}

TEST(DetokenizerProperty, EveryMomentIsWholeAndGroupingChangesNothing) {
  std::mt19937_64 random(11);
  const auto tiny = MakeTokenizer(TinyVocab());
  for (int i = 0; i < 5000; ++i) {
    std::string bytes;
    for (size_t n = random() % 20; n > 0; --n) {
      bytes += random() % 2 == 0 ? "\xE6\x97\xA5"[random() % 3] : static_cast<char>(random());
    }
    // The same bytes as one token each, and grouped by merges where there are any.
    const std::string one_by_one = Show(*tiny, bytes);
    Detokenizer stream(*tiny);
    std::string grouped;
    for (const TokenId id : tiny->Encode(bytes, Trust::kUntrusted)) {
      const std::string part = stream.Push(id);
      ASSERT_TRUE(IsValidUtf8(part));
      ASSERT_LE(stream.held_bytes(), 3U);
      grouped += part;
    }
    ASSERT_EQ(grouped + stream.Flush(), one_by_one);
    ASSERT_TRUE(!IsValidUtf8(bytes) || one_by_one == bytes);
  }
  Detokenizer stream(SmolTokenizer());
  for (int i = 0; i < 50000; ++i) {
    ASSERT_TRUE(IsValidUtf8(stream.Push(static_cast<TokenId>(random() % 49152))));
    ASSERT_LE(stream.held_bytes(), 3U);
  }
}

std::string RunStops(const std::vector<std::string>& stops, const std::vector<std::string>& parts,
                     bool* matched) {
  StopMatcher matcher(stops);
  std::string text;
  for (const std::string& part : parts) text += matcher.Push(part);
  text += matcher.Flush();
  *matched = matcher.matched();
  return text;
}

TEST(StopMatcher, HoldsExactlyTheLongestStart) {
  StopMatcher matcher({"\nUser:", "stop"});
  EXPECT_EQ(matcher.Push("hello\n"), "hello");
  EXPECT_EQ(matcher.held_bytes(), 1U);
  EXPECT_EQ(matcher.Push("Us"), "");
  EXPECT_EQ(matcher.Push("t"), "\nU");  // "st" starts the other one
  EXPECT_EQ(matcher.held_bytes(), 2U);
  EXPECT_EQ(matcher.Push("\n\n"), "st\n");
  EXPECT_EQ(matcher.Push("User"), "");
  EXPECT_FALSE(matcher.matched());
  EXPECT_EQ(matcher.Push(":more"), "");
  EXPECT_TRUE(matcher.matched());
  EXPECT_EQ(matcher.Push("after"), "");
  EXPECT_EQ(matcher.Flush(), "");
}

TEST(StopMatcher, EndGivesBackWhatWasHeld) {
  StopMatcher matcher({"abcabd"});
  EXPECT_EQ(matcher.Push("abcabc"), "abc");
  EXPECT_EQ(matcher.Flush(), "abc");
  EXPECT_FALSE(matcher.matched());
}

TEST(StopMatcher, EarliestEndWinsThenTheLongest) {
  bool matched = false;
  EXPECT_EQ(RunStops({"abc", "b"}, {"xabc"}, &matched), "xa");
  EXPECT_EQ(RunStops({"b", "ab"}, {"xab"}, &matched), "x");
  EXPECT_TRUE(matched);
  EXPECT_EQ(RunStops({"", "q"}, {"xab"}, &matched), "xab");
  EXPECT_FALSE(matched);
  EXPECT_EQ(RunStops({}, {"xab"}, &matched), "xab");
}

TEST(StopMatcherProperty, DividingTheTextChangesNothing) {
  std::mt19937_64 random(3);
  const auto word = [&random](size_t longest) {
    std::string text;
    for (size_t n = random() % (longest + 1); n > 0; --n) text += "ab"[random() % 2];
    return text;
  };
  for (int i = 0; i < 20000; ++i) {
    const std::vector<std::string> stops = {word(5), word(5), word(3)};
    const std::string text = word(14);
    // Oracle: the first end of any stop string, then the longest that ends there.
    std::string expected = text;
    bool expect_match = false;
    for (size_t end = 1; end <= text.size() && !expect_match; ++end) {
      for (const std::string& stop : stops) {
        if (stop.empty() || !text.substr(0, end).ends_with(stop)) continue;
        expect_match = true;
        if (end - stop.size() < expected.size()) expected = text.substr(0, end - stop.size());
      }
    }
    std::vector<std::string> parts;
    for (size_t at = 0; at < text.size();) {
      parts.push_back(text.substr(at, 1 + random() % 4));
      at += parts.back().size();
    }
    bool matched = false;
    ASSERT_EQ(RunStops(stops, parts, &matched), expected);
    ASSERT_EQ(matched, expect_match);
  }
}

}  // namespace
}  // namespace mooring
