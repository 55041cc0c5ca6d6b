// The shapes in which an answer leaves: whole, or as events.
//
// Thread rule: pure functions; a Shape belongs to one answer.
#ifndef MOORING_SERVE_ANSWER_H_
#define MOORING_SERVE_ANSWER_H_

#include <cstdint>
#include <nlohmann/json_fwd.hpp>
#include <string>
#include <string_view>

#include "serve/ask.h"

namespace mooring {

// What every event and reply of one answer has in common.
struct AnswerFacts {
  Dialect dialect = kChat;
  bool include_usage = false;
  std::string response_id;
  std::string model;
  std::string fingerprint;
  int64_t created = 0;  // seconds since 1970
  TurnAccepted turn;
};

// "stop", "length", "content_filter" (numbers that were not finite) or "cancelled".
std::string_view FinishReasonOf(TurnEnd end);

// {"conversation","matched",...,"timings"}: what is ours in every reply.
nlohmann::ordered_json MooringJson(const AnswerFacts& facts, const TurnResult& result);
nlohmann::ordered_json WindowJson(const WindowNumbers& numbers);
// {"from","to","score","item","turn"}: a span that came back, and where it was said.
nlohmann::ordered_json RecalledJson(const RecalledText& span);
nlohmann::ordered_json UsageJson(Dialect dialect, const TurnResult& result);

std::string WholeReply(const AnswerFacts& facts, const TurnResult& result, const std::string& text);

// The events of one answer, each with its number, as the bytes of a stream.
class EventWriter {
 public:
  explicit EventWriter(AnswerFacts facts) : facts_(std::move(facts)) {}

  std::string Begin();
  std::string Text(std::string_view text);
  std::string End(const TurnResult& result);
  // After it the stream ends without [DONE].
  std::string Fail(const ApiError& error);

 private:
  std::string Event(const nlohmann::ordered_json& data, std::string_view name = {});
  std::string Chunk(nlohmann::ordered_json choice, const nlohmann::ordered_json& ours);
  std::string ResponseEvent(std::string_view name, const nlohmann::ordered_json& data);

  AnswerFacts facts_;
  int64_t number_ = 0;
  std::string text_;  // of a response, which ends with all of it
};

}  // namespace mooring

#endif  // MOORING_SERVE_ANSWER_H_
