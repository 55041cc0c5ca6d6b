// What the server makes of requests and answers, without a socket.

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>
#include <fstream>
#include <nlohmann/json.hpp>

#include "serve/answer.h"
#include "serve/api_keys.h"
#include "serve/ask.h"
#include "serve/field_table.h"
#include "serve/http_server.h"
#include "serve/json_body.h"

namespace mooring {
namespace {

using testing::HasSubstr;

std::string CodeOf(std::string_view body) {
  const auto parsed = ParseBody(body);
  const auto* error = std::get_if<ApiError>(&parsed);
  return error == nullptr ? "" : error->code;
}

TEST(JsonBodyTest, KeepsTheOrderAndRefusesWhatIsNotPlain) {
  const auto parsed = ParseBody(R"({"b":1,"a":{"z":[true,null,"x"]}})");
  EXPECT_EQ(Dump(std::get<Json>(parsed)), R"({"b":1,"a":{"z":[true,null,"x"]}})");
  for (const std::string body : {"", "[]", "1", "{", R"({"a":1,"a":2})", R"({"a":{"b":1,"b":2}})",
                                 R"({"a":1e400})", "{\"a\":\"\xFF\"}", "{}{}", "{\"a\":NaN}"}) {
    EXPECT_EQ(CodeOf(body), "invalid_json") << body;
  }
}

TEST(JsonBodyTest, HasADepthAndAWidth) {
  const auto nested = [](size_t depth) {
    return R"({"a":)" + std::string(depth - 1, '[') + std::string(depth - 1, ']') + "}";
  };
  EXPECT_EQ(CodeOf(nested(kMaxJsonDepth)), "");
  EXPECT_EQ(CodeOf(nested(kMaxJsonDepth + 1)), "json_too_deep");
  std::string wide = "{";
  for (size_t i = 0; i <= kMaxJsonMembers; ++i) wide += "\"k" + std::to_string(i) + "\":1,";
  EXPECT_EQ(CodeOf(wide + "\"z\":1}"), "invalid_json");
}

// Every known field, with a value of every wrong kind and just outside its limits.
TEST(FieldTableTest, RefusesEveryWrongValueOfEveryField) {
  const std::vector<Json> kinds = {true, 1, 1.5, "text", Json::array({1}), Json{{"a", 1}}};
  for (const Field& field : Fields()) {
    for (const Dialect dialect : {kChat, kCompletion, kResponse}) {
      if (FindField(field.name, dialect) != &field) continue;
      const std::string name(field.name);
      if (field.use == FieldUse::kIgnored) {
        for (const Json& value : kinds) EXPECT_FALSE(CheckFields({{name, value}}, dialect)) << name;
        continue;
      }
      EXPECT_FALSE(CheckFields({{name, nullptr}}, dialect)) << name;
      size_t refused = 0;
      for (const Json& value : kinds) {
        const auto fault = CheckFields({{name, value}}, dialect);
        if (!fault) continue;
        ++refused;
        EXPECT_EQ(fault->param, name);
        EXPECT_EQ(fault->status, 400);
      }
      EXPECT_GE(refused, 4U) << name;
      for (const double outside : {field.low - 1, field.high + 1}) {
        if (std::isfinite(outside)) {
          EXPECT_TRUE(CheckFields({{name, outside}}, dialect)) << name;
        }
      }
      if (field.low_open) {
        EXPECT_TRUE(CheckFields({{name, field.low}}, dialect)) << name;
      }
      if (field.high_open) {
        EXPECT_TRUE(CheckFields({{name, field.high}}, dialect)) << name;
      }
    }
  }
  EXPECT_EQ(CheckFields({{"nonsense", 1}}, kChat)->code, "unsupported_parameter");
}

std::variant<Ask, ApiError> Read(Json body, HttpRequest request = {}, Dialect dialect = kChat) {
  AskDefaults defaults;
  defaults.model = "m";
  defaults.turn.max_tokens = 7;
  if (dialect == kChat && !body.contains("messages")) {
    body["messages"] = Json::array({Json{{"role", "user"}, {"content", "Hi"}}});
  }
  return ReadAsk(body, request, dialect, defaults);
}

TEST(AskTest, TakesWhatIsAskedAndKeepsTheDefaults) {
  const Ask ask = std::get<Ask>(Read({{"temperature", 0.5},
                                      {"seed", 4},
                                      {"stop", Json::array({"a", "b"})},
                                      {"stream", true},
                                      {"stream_options", {{"include_usage", true}}},
                                      {"conversation", {{"id", "dog"}}}}));
  EXPECT_FLOAT_EQ(ask.order.request.sampler.temperature, 0.5F);
  EXPECT_EQ(ask.order.request.sampler.seed, 4U);
  EXPECT_THAT(ask.order.request.stop, testing::ElementsAre("a", "b"));
  EXPECT_EQ(ask.order.request.max_tokens, 7);
  EXPECT_TRUE(ask.stream && ask.include_usage && ask.order.keep);
  EXPECT_EQ(ask.order.conversation, "dog");
}

TEST(AskTest, ReadsTextPartsAndDevelopers) {
  const Json messages = Json::parse(R"([{"role":"developer","content":"Be kind."},
      {"role":"user","content":[{"type":"text","text":"a"},{"type":"text","text":"b"}]}])");
  const Ask ask = std::get<Ask>(Read({{"messages", messages}}));
  ASSERT_EQ(ask.order.messages.size(), 2U);
  EXPECT_EQ(ask.order.messages[0].role, "system");
  EXPECT_EQ(ask.order.messages[1].text, "ab");
}

TEST(AskTest, RefusesWhatContradictsItself) {
  HttpRequest named;
  named.headers = {{"mooring-conversation", "a"}};
  EXPECT_EQ(std::get<Ask>(Read(Json::object(), named)).order.conversation, "a");
  EXPECT_EQ(std::get<ApiError>(Read({{"conversation", "b"}}, named)).code, "conversation_conflict");
  EXPECT_EQ(std::get<ApiError>(Read({{"conversation", "b"}, {"store", false}})).param, "store");
  EXPECT_EQ(std::get<ApiError>(
                Read({{"input", "x"}, {"conversation", "b"}, {"previous_response_id", "r"}}, {},
                     kResponse))
                .code,
            "conversation_conflict");
  EXPECT_EQ(std::get<ApiError>(Read({{"model", "other"}})).code, "model_not_found");
}

AnswerFacts Facts(Dialect dialect) {
  AnswerFacts facts;
  facts.dialect = dialect;
  facts.response_id = "chatcmpl-1";
  facts.model = "m";
  facts.turn = {.conversation = "conv_1", .answer = "msg_1", .matched = "new", .turn = 1};
  return facts;
}

TEST(EventWriterTest, NumbersItsEventsAndEndsWithDone) {
  EventWriter writer(Facts(kChat));
  EXPECT_THAT(writer.Begin(), testing::StartsWith("id: chatcmpl-1/0\ndata: {"));
  const std::string text = writer.Text("two\nlines\n\ndata: x");
  EXPECT_THAT(text, testing::StartsWith("id: chatcmpl-1/1\ndata: {"));
  // Text can never end its event or begin another.
  EXPECT_EQ(text.find("\n\n"), text.size() - 2);
  TurnResult result;
  result.end = TurnEnd::kLength;
  const std::string end = writer.End(result);
  EXPECT_THAT(end, HasSubstr(R"("delta":{},"logprobs":null,"finish_reason":"length")"));
  EXPECT_THAT(end, testing::EndsWith("\n\ndata: [DONE]\n\n"));
  EXPECT_THAT(end, testing::Not(HasSubstr("usage")));
}

TEST(EventWriterTest, GivesUsageOnlyWhenAsked) {
  AnswerFacts facts = Facts(kChat);
  facts.include_usage = true;
  EventWriter writer(facts);
  EXPECT_THAT(writer.Begin(), HasSubstr(R"("usage":null)"));
  EXPECT_THAT(writer.End({}), HasSubstr(R"("choices":[],"usage":{"prompt_tokens")"));
}

TEST(EventWriterTest, AFailureIsTheLastEvent) {
  EventWriter writer(Facts(kChat));
  const std::string failed = writer.Fail({500, "internal", "broken", ""});
  EXPECT_THAT(failed, HasSubstr(R"(data: {"error":{"message":"broken","type":"api_error")"));
  EXPECT_THAT(failed, testing::Not(HasSubstr("[DONE]")));
}

TEST(ListenAddressTest, KnowsWhatIsThisMachine) {
  for (const char* text : {"127.0.0.1:1", "localhost:0", "[::1]:7437", "unix:x.sock"}) {
    const auto address = ParseListenAddress(text);
    ASSERT_TRUE(address.ok()) << text;
    EXPECT_TRUE(address->loopback()) << text;
  }
  EXPECT_FALSE(ParseListenAddress("0.0.0.0:80")->loopback());
  for (const char* text : {"", "7437", "a:", ":1", "a:70000", "::1:80", "unix:", "a:1x"}) {
    EXPECT_FALSE(ParseListenAddress(text).ok()) << text;
  }
}

TEST(ApiKeysTest, KnowsItsKeysAndShowsNone) {
  EXPECT_EQ(ApiKeys().OwnerOf(""), "local");
  const std::string path = testing::TempDir() + "mooring-keys";
  std::ofstream(path) << "# a note\n\n0123456789abcdef\n  fedcba9876543210  \n";
  const auto keys = ApiKeys::Read(path);
  ASSERT_TRUE(keys.ok()) << keys.error().Message();
  const auto first = keys->OwnerOf("Bearer 0123456789abcdef");
  const auto second = keys->OwnerOf("bearer fedcba9876543210");
  ASSERT_TRUE(first && second);
  EXPECT_NE(*first, *second);
  EXPECT_THAT(*first, testing::Not(HasSubstr("0123456789abcdef")));
  for (const char* wrong : {"", "Bearer", "Bearer ", "Bearer 0123456789abcdefx",
                            "Basic 0123456789abcdef", "0123456789abcdef", "Bearer # a note"}) {
    EXPECT_FALSE(keys->OwnerOf(wrong)) << wrong;
  }
  std::ofstream(path) << "short-secret\n";
  const auto bad = ApiKeys::Read(path);
  ASSERT_FALSE(bad.ok());
  EXPECT_THAT(bad.error().Message(), testing::Not(HasSubstr("short-secret")));
}

TEST(HttpTest, DecodesPathsAndQueries) {
  HttpRequest request;
  request.query = "a=1&b=x%20y+z&c";
  EXPECT_EQ(request.Query("b"), "x y z");
  EXPECT_EQ(request.Query("c"), "");
  EXPECT_FALSE(request.Query("d"));
  EXPECT_FALSE(PercentDecoded("%4", false));
  EXPECT_FALSE(PercentDecoded("%zz", false));
}

}  // namespace
}  // namespace mooring
