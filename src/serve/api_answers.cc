#include <fmt/format.h>

#include <atomic>
#include <chrono>
#include <nlohmann/json.hpp>
#include <utility>

#include "base/clock.h"
#include "serve/answer.h"
#include "serve/api.h"
#include "serve/json_body.h"
#include "talk/conversation_names.h"

namespace mooring {
namespace {

int64_t SecondsNow() {
  return std::chrono::duration_cast<std::chrono::seconds>(
             std::chrono::system_clock::now().time_since_epoch())
      .count();
}

}  // namespace

// One answer on its way to its client, whole or as a stream.
class AnswerStream : public TurnListener {
 public:
  AnswerStream(Api* api, std::shared_ptr<Reply> reply, std::string route, bool stream,
               AnswerFacts facts, OwnerLimits::Place place)
      : api_(api),
        reply_(std::move(reply)),
        route_(std::move(route)),
        stream_(stream),
        facts_(facts),
        events_(std::move(facts)),
        place_(std::move(place)) {}

  void OnAccepted(const TurnAccepted& turn) override {
    facts_.turn = turn;
    {
      const std::lock_guard lock(api_->mutex_);
      ++api_->matched_[std::string(turn.matched)];
    }
    if (!stream_) return;
    events_ = EventWriter(facts_);
    HttpResponse head = {
        .status = 200, .type = "text/event-stream", .headers = Headers(), .body = {}};
    head.headers.emplace_back("Cache-Control", "no-store");
    head.headers.emplace_back("X-Accel-Buffering", "no");
    reply_->Begin(std::move(head));
    begun_ = true;
    ++api_->open_streams_;
    api_->CountReply(route_, 200);
    Write(events_.Begin());
  }

  void OnText(std::string_view text) override {
    if (stream_) {
      Write(events_.Text(text));
    } else {
      text_ += text;
    }
  }

  void OnEnd(const TurnResult& result) override {
    Measure(result);
    if (result.end == TurnEnd::kNumericError) {
      return Fail({500, "numeric_error", "the model's numbers were not finite", ""});
    }
    if (stream_) {
      Write(events_.End(result));
      EndStream();
      return;
    }
    api_->CountReply(route_, 200);
    reply_->Send({.status = 200, .headers = Headers(), .body = WholeReply(facts_, result, text_)});
  }

  void OnRefused(Refusal why, const Error& error) override { Fail(ErrorOf(why, error)); }

  // A silent stream says that it lives.
  void Tick(double comment_seconds) {
    if (!begun_ || MonotonicSeconds() - wrote_ < comment_seconds) return;
    Write(": keep-alive\n\n");
  }

 private:
  void EndStream() {
    begun_ = false;
    --api_->open_streams_;
    reply_->End();
  }

  HttpHeaders Headers() const {
    if (facts_.turn.conversation.empty()) return {};
    return {{"Mooring-Conversation", facts_.turn.conversation}};
  }

  void Write(std::string bytes) {
    wrote_ = MonotonicSeconds();
    reply_->Write(std::move(bytes));
  }

  void Fail(const ApiError& error) {
    if (begun_) {
      Write(events_.Fail(error));
      EndStream();
      return;
    }
    api_->CountReply(route_, error.status);
    reply_->Send(ErrorResponse(error));
  }

  void Measure(const TurnResult& result) {
    const std::lock_guard lock(api_->mutex_);
    const TurnStats& stats = result.stats;
    api_->queued_.Note(result.queue_seconds);
    if (stats.generated_tokens == 0) return;
    api_->first_token_.Note(stats.read_seconds);
    const int64_t gaps = stats.generated_tokens - 1;
    if (gaps > 0) api_->per_token_.Note(stats.generate_seconds / static_cast<double>(gaps), gaps);
  }

  Api* api_;
  std::shared_ptr<Reply> reply_;
  const std::string route_;
  const bool stream_;
  AnswerFacts facts_;
  EventWriter events_;
  const OwnerLimits::Place place_;  // for as long as the turn lives
  std::string text_;
  std::atomic<bool> begun_ = false;
  std::atomic<double> wrote_ = 0.0;
};

void Api::Tick() {
  std::vector<std::shared_ptr<AnswerStream>> streams;
  {
    const std::lock_guard lock(mutex_);
    std::erase_if(streams_, [](const auto& stream) { return stream.expired(); });
    for (const auto& stream : streams_) {
      if (auto held = stream.lock()) streams.push_back(std::move(held));
    }
  }
  for (const auto& stream : streams) stream->Tick(options_.comment_seconds);
}

void Api::Answer(const Call& call, Dialect dialect) {
  const auto body = BodyOf(call);
  if (!body) return;
  auto read = ReadAsk(*body, call.request, dialect, options_.defaults);
  if (const auto* error = std::get_if<ApiError>(&read)) return SendError(call, *error);
  Ask& ask = std::get<Ask>(read);
  if (ask.order.raw) {
    const Tokenizer& tokenizer = host_->engine().tokenizer();
    std::vector<TokenId>& tokens = ask.order.request.tokens;
    if (tokenizer.add_bos() && tokenizer.bos()) tokens.push_back(*tokenizer.bos());
    tokenizer.Encode(ask.prompt, Trust::kUntrusted, &tokens);
    if (tokens.empty()) {
      return SendError(call, {400, "invalid_value", "'prompt' is empty", "prompt"});
    }
  }
  const std::string_view prefix = dialect == kChat         ? "chatcmpl-"
                                  : dialect == kCompletion ? "cmpl-"
                                                           : "resp_";
  const Result<std::string> id = MakeId(prefix);
  if (!id.ok()) return SendError(call, ErrorOf(id.error()));
  ask.order.owner = call.owner;
  ask.order.response_id = *id;
  auto stream = std::make_shared<AnswerStream>(this, call.reply, call.route, ask.stream,
                                               AnswerFacts{.dialect = dialect,
                                                           .include_usage = ask.include_usage,
                                                           .response_id = *id,
                                                           .model = options_.defaults.model,
                                                           .fingerprint = options_.fingerprint,
                                                           .created = SecondsNow(),
                                                           .turn = {}},
                                               call.place);
  if (ask.stream) {
    const std::lock_guard lock(mutex_);
    streams_.push_back(stream);
  }
  const Host::Ticket ticket = host_->Say(std::move(ask.order), stream);
  call.reply->OnGone([host = host_, ticket] { host->Cancel(ticket); });
}

void Api::ChatCompletions(const Call& call) { Answer(call, kChat); }
void Api::Completions(const Call& call) { Answer(call, kCompletion); }
void Api::Responses(const Call& call) { Answer(call, kResponse); }

void Api::GetResponse(const Call& call) {
  WithStore(
      call,
      [owner = call.owner, id = call.parts[0],
       model = options_.defaults.model](Store& store) -> HttpResponse {
        const auto place = store.FindResponse(owner, id);
        if (!place.ok()) return ErrorResponse(ErrorOf(Refusal::kResponseNotFound, place.error()));
        const auto message = store.FindMessage({owner, place->conversation}, place->message);
        if (!message.ok()) return ErrorResponse(ErrorOf(message.error()));
        const bool complete = message->state == MessageState::kComplete;
        const std::string status = message->state == MessageState::kInProgress ? "in_progress"
                                   : complete                                  ? "completed"
                                                                               : "incomplete";
        const Json content = {
            {{"type", "output_text"}, {"text", message->text}, {"annotations", Json::array()}}};
        const Json json = {{"id", id},
                           {"object", "response"},
                           {"created_at", message->created_ms / 1000},
                           {"status", status},
                           {"error", nullptr},
                           {"incomplete_details", nullptr},
                           {"instructions", nullptr},
                           {"model", model},
                           {"output", Json::array({{{"type", "message"},
                                                    {"id", message->id},
                                                    {"status", status},
                                                    {"role", "assistant"},
                                                    {"content", Json::array({content[0]})}}})},
                           {"parallel_tool_calls", false},
                           {"tool_choice", "none"},
                           {"tools", Json::array()},
                           {"conversation", {{"id", place->conversation}}}};
        return {.body = Dump(json)};
      });
}

}  // namespace mooring
