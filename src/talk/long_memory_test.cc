#include "talk/long_memory.h"

#include <gtest/gtest.h>

#include <string>
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

  TestWords words_{{"gate", "code", "red", "blue", "tea", "sun", "one", "two"}};
  TokenLog log_;
  std::vector<MessageRange> messages_;
};

TEST_F(LongMemoryIndexTest, FindsARoundAndNotWhatIsInSight) {
  LongMemory memory(&words_.terms(), 64);
  Say("user", {"gate", "code", "one"});
  Say("assistant", {"tea"});
  for (int i = 0; i < 6; ++i) {
    Say("user", {"red", "blue"});
    Say("assistant", {"sun"});
  }
  memory.Add(log_, messages_);
  const auto found = memory.Find(log_, Tokens({"gate", "code"}), log_.end());
  ASSERT_EQ(found.size(), 1U);
  EXPECT_EQ(found[0].span.range, (LogRange{{0}, {4}}));
  EXPECT_TRUE(memory.Find(log_, Tokens({"gate", "code"}), {0}).empty());
  EXPECT_TRUE(memory.Find(log_, Tokens({"two"}), log_.end()).empty());
}

TEST_F(LongMemoryIndexTest, OfALongSpanTheRunWithTheWordsComesBack) {
  LongMemory memory(&words_.terms(), 32);
  std::vector<std::string> words(100, "sun");
  words[70] = "gate";
  words[71] = "code";
  Say("user", words);
  for (int i = 0; i < 6; ++i) Say("user", {"red", "blue"});
  memory.Add(log_, messages_);
  const auto found = memory.Find(log_, Tokens({"gate", "code"}), log_.end());
  ASSERT_EQ(found.size(), 1U);
  EXPECT_LE(found[0].span.range.tokens(), 32);
  EXPECT_LE(found[0].span.range.from.value, 70);
  EXPECT_GE(found[0].span.range.to.value, 72);
}

}  // namespace
}  // namespace mooring
