#include "text/pretokenizer.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <string>
#include <vector>

#include "text/utf8.h"

namespace mooring {
namespace {

using ::testing::ElementsAre;

std::vector<std::string> Pieces(PreTokenizer pre, std::string_view text) {
  std::vector<std::string> pieces;
  while (!text.empty()) {
    const size_t bytes = NextPieceBytes(pre, text);
    pieces.emplace_back(text.substr(0, bytes));
    text.remove_prefix(bytes);
  }
  return pieces;
}

TEST(PreTokenizer, Names) {
  EXPECT_EQ(FindPreTokenizer("smollm"), PreTokenizer::kSmollm);
  EXPECT_EQ(FindPreTokenizer("gpt-2"), PreTokenizer::kGpt2);
  EXPECT_EQ(FindPreTokenizer("gpt2"), PreTokenizer::kGpt2);
  EXPECT_EQ(FindPreTokenizer("GPT2"), std::nullopt);
}

TEST(PreTokenizer, Gpt2SplitsLikeItsExpression) {
  const auto pieces = [](std::string_view text) { return Pieces(PreTokenizer::kGpt2, text); };
  EXPECT_THAT(pieces("It's 42 o'clock..."),
              ElementsAre("It", "'s", " 42", " o", "'", "clock", "..."));
  EXPECT_THAT(pieces("a  b"), ElementsAre("a", " ", " b"));
  EXPECT_THAT(pieces("a \n\n b"), ElementsAre("a", " \n\n", " b"));
  EXPECT_THAT(pieces("a\n\nb"), ElementsAre("a", "\n", "\n", "b"));
  EXPECT_THAT(pieces("a\nb"), ElementsAre("a", "\n", "b"));
  EXPECT_THAT(pieces("a   "), ElementsAre("a", "   "));
  EXPECT_THAT(pieces(" 'll"), ElementsAre(" '", "ll"));
  EXPECT_THAT(pieces("'lla'L"), ElementsAre("'ll", "a", "'", "L"));
  EXPECT_THAT(pieces("x\xFF\xFEy"), ElementsAre("x", "\xFF\xFE", "y"));
  EXPECT_THAT(pieces("\xC2\xA0x"), ElementsAre("\xC2\xA0", "x"));
}

TEST(PreTokenizer, SmollmTakesDigitsAloneFirst) {
  const auto pieces = [](std::string_view text) { return Pieces(PreTokenizer::kSmollm, text); };
  EXPECT_THAT(pieces(" 42"), ElementsAre(" ", "4", "2"));
  // The spaces end their stretch, so nothing is kept back for what follows.
  EXPECT_THAT(pieces("a  4"), ElementsAre("a", "  ", "4"));
  EXPECT_THAT(pieces("a  b"), ElementsAre("a", " ", " b"));
  EXPECT_THAT(pieces("v2x"), ElementsAre("v", "2", "x"));
  EXPECT_THAT(pieces("\xC2\xBD\xE2\x85\xA7"), ElementsAre("\xC2\xBD", "\xE2\x85\xA7"));
}

TEST(PreTokenizer, ClassesAreThoseOfTheReference) {
  EXPECT_EQ(UnicodeVersion(), "16.0");
  EXPECT_EQ(ClassOf('a'), CharClass::kLetter);
  EXPECT_EQ(ClassOf('7'), CharClass::kNumber);
  EXPECT_EQ(ClassOf(0x3000), CharClass::kSpace);
  EXPECT_EQ(ClassOf(0x200B), CharClass::kOther);
  EXPECT_EQ(ClassOf(0x105C0), CharClass::kLetter);     // new in 16.0
  EXPECT_EQ(ClassOf(0x323B0), CharClass::kOther);      // new in 17.0
  EXPECT_EQ(ClassOf(0x11DE0), CharClass::kDigitOnly);  // new in 17.0
  EXPECT_EQ(ClassOf(0x10FFFF), CharClass::kOther);
}

TEST(PreTokenizer, EveryCodePointKeepsItsBytes) {
  for (const PreTokenizer pre : {PreTokenizer::kGpt2, PreTokenizer::kSmollm}) {
    for (uint32_t c = 0; c < 0x110000; c += 7) {
      if (c >= 0xD800 && c < 0xE000) continue;
      std::string text;
      AppendUtf8(c, &text);
      const size_t bytes = text.size();
      text += "x";
      const size_t piece = NextPieceBytes(pre, text);
      ASSERT_TRUE(piece == bytes || piece == bytes + 1) << c;
    }
  }
}

}  // namespace
}  // namespace mooring
