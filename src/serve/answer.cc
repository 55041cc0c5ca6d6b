#include "serve/answer.h"

#include <fmt/format.h>

#include <cmath>
#include <nlohmann/json.hpp>
#include <utility>

#include "serve/json_body.h"

namespace mooring {
namespace {

constexpr double kMilliseconds = 1000.0;

Json Round(double value) {
  return static_cast<double>(static_cast<int64_t>(value * 10 + 0.5)) / 10;
}

Json ResponseObject(const AnswerFacts& facts, const std::string& status, Json output, Json usage) {
  return {{"id", facts.response_id},
          {"object", "response"},
          {"created_at", facts.created},
          {"status", status},
          {"error", nullptr},
          {"incomplete_details",
           status == "incomplete" ? Json{{"reason", "max_output_tokens"}} : Json(nullptr)},
          {"instructions", nullptr},
          {"model", facts.model},
          {"output", std::move(output)},
          {"parallel_tool_calls", false},
          {"tool_choice", "none"},
          {"tools", Json::array()},
          {"conversation",
           facts.turn.conversation.empty() ? Json(nullptr) : Json{{"id", facts.turn.conversation}}},
          {"usage", std::move(usage)}};
}

Json OutputMessage(const AnswerFacts& facts, const std::string& status, const std::string& text) {
  const std::string id = facts.turn.answer.empty() ? "msg_" + facts.response_id : facts.turn.answer;
  Json content = Json::array();
  if (status != "in_progress") {
    content.push_back({{"type", "output_text"}, {"text", text}, {"annotations", Json::array()}});
  }
  return {{"type", "message"},
          {"id", id},
          {"status", status},
          {"role", "assistant"},
          {"content", std::move(content)}};
}

std::string ResponseStatus(const TurnResult& result) {
  return FinishReasonOf(result.end) == "stop" ? "completed" : "incomplete";
}

Json WholeResponse(const AnswerFacts& facts, const TurnResult& result, const std::string& text) {
  const std::string status = ResponseStatus(result);
  Json reply = ResponseObject(facts, status, Json::array({OutputMessage(facts, status, text)}),
                              UsageJson(kResponse, result));
  reply["mooring"] = MooringJson(facts, result);
  return reply;
}

}  // namespace

std::string_view FinishReasonOf(TurnEnd end) {
  switch (end) {
    case TurnEnd::kStop:
    case TurnEnd::kStopString:
      return "stop";
    case TurnEnd::kLength:
    case TurnEnd::kWindowFull:
    case TurnEnd::kOutOfPages:
      return "length";
    case TurnEnd::kCancelled:
      return "cancelled";
    case TurnEnd::kNumericError:
      break;
  }
  return "content_filter";
}

Json UsageJson(Dialect dialect, const TurnResult& result) {
  const int64_t prompt = result.prompt_tokens;
  const int64_t written = result.stats.generated_tokens;
  if (dialect == kResponse) {
    return {{"input_tokens", prompt},
            {"input_tokens_details", {{"cached_tokens", result.cached_tokens}}},
            {"output_tokens", written},
            {"output_tokens_details", {{"reasoning_tokens", 0}}},
            {"total_tokens", prompt + written}};
  }
  return {{"prompt_tokens", prompt},
          {"completion_tokens", written},
          {"total_tokens", prompt + written},
          {"prompt_tokens_details", {{"cached_tokens", result.cached_tokens}}}};
}

Json WindowJson(const WindowNumbers& numbers) {
  return {{"capacity", numbers.capacity},
          {"anchors", numbers.anchors},
          {"recalled", numbers.recalled},
          {"recent", numbers.recent}};
}

Json RecalledJson(const RecalledText& span) {
  constexpr double kDecimals = 1000.0;
  return {{"from", span.range.from.value},
          {"to", span.range.to.value},
          {"score", std::round(span.score * kDecimals) / kDecimals},
          {"item", span.item.empty() ? Json(nullptr) : Json(span.item)},
          {"turn", span.item.empty() ? Json(nullptr) : Json(span.turn)}};
}

Json MooringJson(const AnswerFacts& facts, const TurnResult& result) {
  const TurnStats& stats = result.stats;
  const bool measured = stats.generated_tokens > 1 && stats.generate_seconds > 0.0;
  const double rate =
      measured ? static_cast<double>(stats.generated_tokens - 1) / stats.generate_seconds : 0.0;
  const auto text = [](const std::string& id) { return id.empty() ? Json(nullptr) : Json(id); };
  Json recalled = Json::array();
  for (const RecalledText& span : result.recalled) recalled.push_back(RecalledJson(span));
  return {
      {"conversation", text(facts.turn.conversation)},
      {"matched", facts.turn.matched},
      {"turn", facts.turn.turn},
      {"message", text(facts.turn.answer)},
      {"log_tokens", result.window.log},
      {"new_tokens", result.new_tokens},
      {"window", WindowJson(result.window)},
      {"forgotten_tokens", result.window.forgotten()},
      {"recalled", std::move(recalled)},
      {"durable", result.durable},
      {"warnings", result.warnings},
      {"timings",
       {{"queue_ms", Round(result.queue_seconds * kMilliseconds)},
        {"first_token_ms", Round(stats.read_seconds * kMilliseconds)},
        {"total_ms", Round((result.queue_seconds + stats.read_seconds + stats.generate_seconds) *
                           kMilliseconds)},
        {"tokens_per_second", Round(rate)}}}};
}

std::string WholeReply(const AnswerFacts& facts, const TurnResult& result,
                       const std::string& text) {
  if (facts.dialect == kResponse) return Dump(WholeResponse(facts, result, text));
  const bool chat = facts.dialect == kChat;
  Json choice = {{"index", 0}};
  if (chat) {
    choice["message"] = {{"role", "assistant"}, {"content", text}, {"refusal", nullptr}};
  } else {
    choice["text"] = text;
  }
  choice["logprobs"] = nullptr;
  choice["finish_reason"] = FinishReasonOf(result.end);
  return Dump({{"id", facts.response_id},
               {"object", chat ? "chat.completion" : "text_completion"},
               {"created", facts.created},
               {"model", facts.model},
               {"system_fingerprint", facts.fingerprint},
               {"choices", Json::array({std::move(choice)})},
               {"usage", UsageJson(facts.dialect, result)},
               {"mooring", MooringJson(facts, result)}});
}

std::string EventWriter::Event(const Json& data, std::string_view name) {
  std::string event = fmt::format("id: {}/{}\n", facts_.response_id, number_++);
  if (!name.empty()) event += fmt::format("event: {}\n", name);
  return event + fmt::format("data: {}\n\n", Dump(data));
}

std::string EventWriter::Chunk(Json choice, const Json& ours) {
  const bool chat = facts_.dialect == kChat;
  Json chunk = {{"id", facts_.response_id},
                {"object", chat ? "chat.completion.chunk" : "text_completion"},
                {"created", facts_.created},
                {"model", facts_.model},
                {"system_fingerprint", facts_.fingerprint},
                {"choices", Json::array({std::move(choice)})}};
  if (facts_.include_usage) chunk["usage"] = nullptr;
  if (!ours.is_null()) chunk["mooring"] = ours;
  return Event(chunk);
}

std::string EventWriter::ResponseEvent(std::string_view name, const Json& data) {
  Json event = {{"type", name}, {"sequence_number", number_}};
  event.update(data);
  return Event(event, name);
}

std::string EventWriter::Begin() {
  if (facts_.dialect == kCompletion) return {};
  if (facts_.dialect == kChat) {
    return Chunk({{"index", 0},
                  {"delta", {{"role", "assistant"}, {"content", ""}}},
                  {"logprobs", nullptr},
                  {"finish_reason", nullptr}},
                 nullptr);
  }
  const Json begun = ResponseObject(facts_, "in_progress", Json::array(), nullptr);
  const Json message = OutputMessage(facts_, "in_progress", "");
  std::string events = ResponseEvent("response.created", {{"response", begun}});
  events += ResponseEvent("response.in_progress", {{"response", begun}});
  events += ResponseEvent("response.output_item.added", {{"output_index", 0}, {"item", message}});
  events += ResponseEvent(
      "response.content_part.added",
      {{"item_id", message["id"]},
       {"output_index", 0},
       {"content_index", 0},
       {"part", {{"type", "output_text"}, {"text", ""}, {"annotations", Json::array()}}}});
  return events;
}

std::string EventWriter::Text(std::string_view text) {
  if (facts_.dialect == kChat) {
    return Chunk({{"index", 0},
                  {"delta", {{"content", text}}},
                  {"logprobs", nullptr},
                  {"finish_reason", nullptr}},
                 nullptr);
  }
  if (facts_.dialect == kCompletion) {
    return Chunk({{"index", 0}, {"text", text}, {"logprobs", nullptr}, {"finish_reason", nullptr}},
                 nullptr);
  }
  text_ += text;
  return ResponseEvent("response.output_text.delta",
                       {{"item_id", OutputMessage(facts_, "in_progress", "")["id"]},
                        {"output_index", 0},
                        {"content_index", 0},
                        {"delta", text},
                        {"logprobs", Json::array()}});
}

std::string EventWriter::End(const TurnResult& result) {
  if (facts_.dialect == kResponse) {
    const std::string status = ResponseStatus(result);
    const Json message = OutputMessage(facts_, status, text_);
    std::string events = ResponseEvent("response.output_text.done", {{"item_id", message["id"]},
                                                                     {"output_index", 0},
                                                                     {"content_index", 0},
                                                                     {"text", text_},
                                                                     {"logprobs", Json::array()}});
    events += ResponseEvent("response.content_part.done", {{"item_id", message["id"]},
                                                           {"output_index", 0},
                                                           {"content_index", 0},
                                                           {"part", message["content"][0]}});
    events += ResponseEvent("response.output_item.done", {{"output_index", 0}, {"item", message}});
    return events + ResponseEvent("response." + status,
                                  {{"response", WholeResponse(facts_, result, text_)}});
  }
  Json choice = {{"index", 0}};
  if (facts_.dialect == kChat) {
    choice["delta"] = Json::object();
  } else {
    choice["text"] = "";
  }
  choice["logprobs"] = nullptr;
  choice["finish_reason"] = FinishReasonOf(result.end);
  std::string events = Chunk(std::move(choice), MooringJson(facts_, result));
  if (facts_.include_usage) {
    events +=
        Event({{"id", facts_.response_id},
               {"object", facts_.dialect == kChat ? "chat.completion.chunk" : "text_completion"},
               {"created", facts_.created},
               {"model", facts_.model},
               {"system_fingerprint", facts_.fingerprint},
               {"choices", Json::array()},
               {"usage", UsageJson(facts_.dialect, result)}});
  }
  return events + "data: [DONE]\n\n";
}

std::string EventWriter::Fail(const ApiError& error) {
  if (facts_.dialect == kResponse) {
    Json failed = ResponseObject(facts_, "failed", Json::array(), nullptr);
    failed["error"] = {{"code", error.code}, {"message", error.message}};
    return ResponseEvent("response.failed", {{"response", std::move(failed)}});
  }
  return fmt::format("id: {}/{}\ndata: {}\n\n", facts_.response_id, number_++, ErrorBody(error));
}

}  // namespace mooring
