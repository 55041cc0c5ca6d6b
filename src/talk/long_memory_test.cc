#include "talk/long_memory.h"

#include <gtest/gtest.h>

#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "talk/test_words.h"

namespace mooring {
namespace {

class LongMemoryIndexTest : public testing::Test {
 protected:
  void Say(std::string_view role, const std::vector<std::string>& words) {
    const LogIndex from = log_.end();
    for (const std::string& word : words) log_.Append(words_.Id(word), false);
    messages_.push_back({role, {from, log_.end()}, {from, log_.end()}});
  }
  std::vector<TokenId> Tokens(const std::vector<std::string>& words) const {
    std::vector<TokenId> tokens;
    for (const std::string& word : words) tokens.push_back(words_.Id(word));
    return tokens;
  }
  LongMemory Make(int64_t most_tokens, Meaning meaning = {}) {
    return {&words_.tokenizer(), &words_.terms(), most_tokens, std::move(meaning)};
  }
  // An encoder that knows two things to speak of; which texts it was given.
  Meaning TwoThings() {
    return {2, 7, [this](std::string_view text) -> std::span<const float> {
              encoded_.emplace_back(text);
              const bool tea = text.find("tea") != std::string_view::npos ||
                               text.find("red") != std::string_view::npos;
              vector_ = tea ? std::vector<float>{1, 0.25F} : std::vector<float>{0, 1};
              return vector_;
            }};
  }
  // A talk of seven rounds, of which the first is about tea.
  void SayRounds() {
    Say("user", {"tea", "one"});
    Say("assistant", {"code"});
    for (int i = 0; i < 6; ++i) {
      Say("user", {"sun", "blue"});
      Say("assistant", {"tea"});
    }
  }

  TestWords words_{{"gate", "code", "red", "blue", "tea", "sun", "one", "two"}};
  TokenLog log_;
  std::vector<float> vector_;
  std::vector<std::string> encoded_;
  std::vector<MessageRange> messages_;
};

TEST_F(LongMemoryIndexTest, FindsARoundAndNotWhatIsInSight) {
  LongMemory memory = Make(64);
  Say("user", {"gate", "code", "one"});
  Say("assistant", {"tea"});
  for (int i = 0; i < 6; ++i) {
    Say("user", {"red", "blue"});
    Say("assistant", {"sun"});
  }
  memory.Add(log_, messages_);
  const auto found = memory.Find(log_, "gate code", Tokens({"gate", "code"}), log_.end());
  ASSERT_EQ(found.size(), 1U);
  EXPECT_EQ(found[0].span.range, (LogRange{{0}, {4}}));
  EXPECT_TRUE(memory.Find(log_, "gate code", Tokens({"gate", "code"}), {0}).empty());
  EXPECT_TRUE(memory.Find(log_, "two", Tokens({"two"}), log_.end()).empty());
}

TEST_F(LongMemoryIndexTest, FindsByMeaningWhatSharesNoWord) {
  SayRounds();
  LongMemory memory = Make(64, TwoThings());
  memory.Add(log_, messages_);
  EXPECT_EQ(encoded_.front(), "teaone") << "the user's words, not the answer";
  EXPECT_EQ(encoded_.size(), 7U);
  EXPECT_TRUE(memory.Find(log_, "red", Tokens({"red"}), {0}).empty());
  EXPECT_EQ(encoded_.size(), 7U) << "what is all in sight is not looked for";
  const auto found = memory.Find(log_, "red", Tokens({"red"}), log_.end());
  ASSERT_EQ(found.size(), 1U);
  EXPECT_EQ(found[0].span.range, (LogRange{{0}, {3}}));
  EXPECT_EQ(encoded_.back(), "red");

  LongMemory by_words = Make(64);
  by_words.Add(log_, messages_);
  EXPECT_TRUE(by_words.Find(log_, "red", Tokens({"red"}), log_.end()).empty());
}

TEST_F(LongMemoryIndexTest, VectorsThatWereKeptNeedNoEncoder) {
  SayRounds();
  LongMemory memory = Make(64, TwoThings());
  memory.Add(log_, messages_);
  const std::vector<SpanVector> kept = memory.VectorsFrom(0);
  ASSERT_EQ(kept.size(), 7U);
  EXPECT_EQ(memory.VectorsFrom(5), (std::vector<SpanVector>{kept[5], kept[6]}));

  encoded_.clear();
  LongMemory again = Make(64, TwoThings());
  again.AddAgain(log_, messages_, kept);
  EXPECT_TRUE(encoded_.empty());
  EXPECT_EQ(again.VectorsFrom(0), kept);
  ASSERT_EQ(again.Find(log_, "red", Tokens({"red"}), log_.end()).size(), 1U);

  // What was not kept is made, or found by its words where that must not be.
  std::vector<SpanVector> others = kept;
  others.erase(others.begin() + 3);
  others[0].encoder = 8;
  others[1].row.push_back(1);
  others[2].range.to = others[2].range.to + 1;
  encoded_.clear();
  LongMemory made = Make(64, TwoThings());
  made.Add(log_, messages_, others);
  EXPECT_EQ(encoded_.size(), 4U);
  EXPECT_EQ(made.VectorsFrom(0), kept);
  LongMemory left = Make(64, TwoThings());
  left.AddAgain(log_, messages_, others);
  EXPECT_EQ(left.VectorsFrom(0).size(), 3U);
  EXPECT_EQ(left.index().span_count(), 7U);
}

TEST_F(LongMemoryIndexTest, APieceWithoutTheUsersWordsGoesByItsOwn) {
  LongMemory memory = Make(64, TwoThings());
  Say("user", {"one"});
  Say("assistant", std::vector<std::string>(400, "sun"));
  memory.Add(log_, messages_);
  ASSERT_GE(encoded_.size(), 2U);
  EXPECT_EQ(encoded_[0], "one");
  EXPECT_TRUE(encoded_[1].starts_with("sunsun"));
}

TEST_F(LongMemoryIndexTest, OfALongSpanTheRunWithTheWordsComesBack) {
  LongMemory memory = Make(32);
  std::vector<std::string> words(100, "sun");
  words[70] = "gate";
  words[71] = "code";
  Say("user", words);
  for (int i = 0; i < 6; ++i) Say("user", {"red", "blue"});
  memory.Add(log_, messages_);
  const auto found = memory.Find(log_, "gate code", Tokens({"gate", "code"}), log_.end());
  ASSERT_EQ(found.size(), 1U);
  EXPECT_LE(found[0].span.range.tokens(), 32);
  EXPECT_LE(found[0].span.range.from.value, 70);
  EXPECT_GE(found[0].span.range.to.value, 72);
}

}  // namespace
}  // namespace mooring
