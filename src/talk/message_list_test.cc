#include "talk/message_list.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace mooring {
namespace {

using testing::HasSubstr;

std::string Spelt(const std::vector<ChatMessage>& messages) {
  std::string text;
  for (const ChatMessage& message : messages) text += message.role[0] + message.content + "|";
  return text;
}

std::string Refusal(std::string_view json) {
  const auto messages = ParseMessages(json, "file.json");
  EXPECT_FALSE(messages.ok()) << json;
  return messages.ok() ? "" : messages.error().Message();
}

TEST(MessageListTest, ReadsListsObjectsAndParts) {
  const auto list = ParseMessages(R"([{"role":"user","content":"Hi"}])", "");
  ASSERT_TRUE(list.ok());
  EXPECT_EQ(Spelt(*list), "uHi|");
  const auto object = ParseMessages(
      R"({"x":1,"messages":[{"role":"developer","content":[{"type":"text","text":"a"},{"text":"b"}]},)"
      R"({"role":"assistant","content":""}]})",
      "");
  ASSERT_TRUE(object.ok());
  EXPECT_EQ(Spelt(*object), "sab|a|");
}

TEST(MessageListTest, NamesWhatIsWrong) {
  EXPECT_THAT(Refusal("{"), HasSubstr("file.json"));
  EXPECT_THAT(Refusal("{}"), HasSubstr("messages"));
  EXPECT_THAT(Refusal("3"), HasSubstr("number"));
  EXPECT_THAT(Refusal(R"([{"role":"user","content":"a"},{"role":"tool","content":"b"}])"),
              HasSubstr("messages[1].role"));
  EXPECT_THAT(Refusal(R"([{"role":"user"}])"), HasSubstr("messages[0].content"));
  EXPECT_THAT(Refusal(R"([{"role":"user","content":[{"image":"x"}]}])"), HasSubstr("content"));
  EXPECT_THAT(Refusal(R"([["user","a"]])"), HasSubstr("messages[0]"));
  EXPECT_THAT(Refusal(std::string(100000, '[')), HasSubstr("JSON"));
}

TEST(MessageListTest, BringsMessagesIntoOrder) {
  const auto order = [](std::vector<ChatMessage> messages) {
    return Spelt(InDialogueOrder(std::move(messages)));
  };
  EXPECT_EQ(order({{"user", "a"}, {"user", "b"}, {"assistant", "c"}}), "ua\n\nb|ac|");
  EXPECT_EQ(order({{"assistant", "hello"}, {"user", "a"}}), "u|ahello|ua|");
  EXPECT_EQ(order({{"system", "s"}, {"assistant", "hello"}}), "ss|u|ahello|");
  EXPECT_EQ(order({{"user", "a"}, {"assistant", "b"}, {"system", "s"}, {"assistant", "c"}}),
            "ua|ab|ss|u|ac|");
  EXPECT_EQ(order({{"user", "a"}, {"system", "s"}, {"assistant", "c"}}), "ua|ss|ac|");
  EXPECT_EQ(order({}), "");
}

}  // namespace
}  // namespace mooring
