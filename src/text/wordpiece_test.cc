#include "text/wordpiece.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace mooring {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;

class WordPieceTest : public testing::Test {
 protected:
  void SetUp() override {
    auto made = WordPiece::Create(words_, "vocab.txt");
    ASSERT_TRUE(made.ok()) << made.error().Message();
    pieces_ = std::move(made).value();
  }
  // The words of the ids, without [CLS] and [SEP].
  std::vector<std::string> Pieces(std::string_view text) const {
    const std::vector<TokenId> ids = pieces_->Encode(text, 1000);
    EXPECT_EQ(words_[static_cast<size_t>(ids.front())], "[CLS]");
    EXPECT_EQ(words_[static_cast<size_t>(ids.back())], "[SEP]");
    std::vector<std::string> out;
    for (size_t i = 1; i + 1 < ids.size(); ++i) out.push_back(words_[static_cast<size_t>(ids[i])]);
    return out;
  }

  const std::vector<std::string> words_ = {"[PAD]",
                                           "[UNK]",
                                           "[CLS]",
                                           "[SEP]",
                                           "un",
                                           "##aff",
                                           "##able",
                                           "aff",
                                           "able",
                                           "cafe",
                                           "!",
                                           "[",
                                           "]",
                                           "sep",
                                           "a",
                                           "##a",
                                           "##b",
                                           "\xe4\xb8\xad",
                                           "\xe5\x9b\xbd",
                                           "\xcf\x83",
                                           "##\xcf\x83",
                                           "$",
                                           "##\xe2\x82\xac"};
  std::unique_ptr<const WordPiece> pieces_;
};

TEST_F(WordPieceTest, TakesTheLongestPieceFromTheLeft) {
  EXPECT_THAT(Pieces("unaffable"), ElementsAre("un", "##aff", "##able"));
  EXPECT_THAT(Pieces("able aff"), ElementsAre("able", "aff"));
  EXPECT_THAT(Pieces("unx aff"), ElementsAre("[UNK]", "aff")) << "the whole word, not its rest";
  EXPECT_THAT(Pieces(""), ElementsAre());
  EXPECT_THAT(Pieces(" \t\n "), ElementsAre());
}

TEST_F(WordPieceTest, DropsAccentsCapitalsAndControls) {
  EXPECT_THAT(Pieces("CAF\xc3\x89"), ElementsAre("cafe"));
  EXPECT_THAT(Pieces("cafe\xcc\x81"), ElementsAre("cafe"));
  EXPECT_THAT(Pieces("\xce\xa3\xcf\x83"), ElementsAre("\xcf\x83", "##\xcf\x83"));
  EXPECT_THAT(Pieces("af\x01"
                     "f\xe2\x80\x8b"),
              ElementsAre("aff"));  // U+200B is a format
  EXPECT_THAT(Pieces("un\xc2\xa0"
                     "aff"),
              ElementsAre("un", "aff"));  // no-break space
  EXPECT_THAT(Pieces("af\xff"
                     "f\xc3"),
              ElementsAre("aff"));  // no UTF-8
}

TEST_F(WordPieceTest, SplitsAtPunctuationAndIdeographs) {
  EXPECT_THAT(Pieces("un!aff!!"), ElementsAre("un", "!", "aff", "!", "!"));
  EXPECT_THAT(Pieces("a$a"), ElementsAre("a", "$", "a"));
  EXPECT_THAT(Pieces("\xe4\xb8\xad\xe5\x9b\xbd"
                     "a"),
              ElementsAre("\xe4\xb8\xad", "\xe5\x9b\xbd", "a"));
  EXPECT_THAT(Pieces("[SEP]"), ElementsAre("[", "sep", "]")) << "special words are only text";
}

TEST_F(WordPieceTest, GivesUpOnWordsOfMoreThanAHundredCharacters) {
  EXPECT_EQ(Pieces(std::string(100, 'a')).size(), 100U);
  EXPECT_THAT(Pieces(std::string(101, 'a')), ElementsAre("[UNK]"));
}

TEST_F(WordPieceTest, KeepsTheEndOfALongText) {
  const std::vector<TokenId> ids = pieces_->Encode("un a aff able", 4);
  EXPECT_THAT(ids, ElementsAre(2, 7, 8, 3));
  EXPECT_THAT(pieces_->Encode("un a", 2), ElementsAre(2, 3));
  EXPECT_THAT(pieces_->Encode("un a", 4), ElementsAre(2, 4, 14, 3));
  std::string text;
  for (int i = 0; i < 100000; ++i) text += "un ";
  text += "aff able";
  const std::vector<TokenId> long_ids = pieces_->Encode(text, 256);
  ASSERT_EQ(long_ids.size(), 256U);
  EXPECT_EQ(long_ids[1], 4);
  EXPECT_EQ(long_ids[253], 7);
  EXPECT_EQ(long_ids[254], 8);
}

TEST(WordPiece, RefusesBadVocabularies) {
  const auto fault = [](std::vector<std::string> words) {
    const auto made = WordPiece::Create(std::move(words), "vocab.txt");
    EXPECT_FALSE(made.ok());
    return made.ok() ? std::string() : made.error().Message();
  };
  EXPECT_THAT(fault({"[CLS]", "[SEP]"}), HasSubstr("[UNK]"));
  EXPECT_THAT(fault({"[CLS]", "[SEP]", "[UNK]", "a", "a"}), HasSubstr("line 5"));
  EXPECT_THAT(fault({"[CLS]", "[SEP]", "[UNK]", "The"}), HasSubstr("lower case"));
}

}  // namespace
}  // namespace mooring
