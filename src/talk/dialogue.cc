#include "talk/dialogue.h"

#include <fmt/format.h>

#include <algorithm>
#include <utility>

namespace mooring {
namespace {

Status StatusOfReading(TurnEnd end) {
  switch (end) {
    case TurnEnd::kLength:
    case TurnEnd::kStop:
    case TurnEnd::kStopString:
      return {};
    case TurnEnd::kCancelled:
      return Error{.kind = ErrorKind::kInterrupted, .what = "stopped while reading"};
    case TurnEnd::kWindowFull:
    case TurnEnd::kOutOfPages:
    case TurnEnd::kNumericError:
      break;
  }
  return Error{
      .kind = ErrorKind::kFailed,
      .what = "the message could not be read to its end",
      .found = std::string(NameOf(end)),
      .remedy = end == TurnEnd::kWindowFull ? "use --policy sinks, or a larger --window" : ""};
}

}  // namespace

// Keeps the answer while it passes on to the caller's sink.
class Dialogue::Recorder : public Sink {
 public:
  explicit Recorder(Sink* next) : next_(next) {}

  Outcome&& outcome() { return std::move(outcome_); }

  void OnText(std::string_view text) override {
    outcome_.text += text;
    if (next_ != nullptr) next_->OnText(text);
  }
  void OnToken(const SampledToken& token) override {
    if (next_ != nullptr) next_->OnToken(token);
  }
  void OnLogits(LogIndex index, std::span<const float> logits) override {
    if (next_ != nullptr) next_->OnLogits(index, logits);
  }
  void OnEnd(TurnEnd end, const TurnStats& stats) override {
    outcome_.end = end;
    outcome_.stats = stats;
    if (next_ != nullptr) next_->OnEnd(end, stats);
  }

 private:
  Sink* next_;
  Outcome outcome_;
};

Status RunTurn(Engine* engine, ConversationId id, TurnRequest request, Sink* sink,
               const std::atomic<bool>* interrupted) {
  MOORING_RETURN_IF_ERROR(engine->Submit(id, std::move(request), sink));
  bool cancelled = false;
  const Conversation* conversation = engine->Find(id);
  CHECK(conversation != nullptr && !conversation->busy());
  do {
    if (!cancelled && interrupted != nullptr && interrupted->load(std::memory_order_relaxed)) {
      engine->Cancel(id);
      cancelled = true;
    }
    const bool worked = engine->Step();
    conversation = engine->Find(id);
    CHECK(worked || !conversation->busy(), "the engine has nothing to do in the middle of a turn");
  } while (conversation->busy());
  return {};
}

Result<Dialogue> Dialogue::Create(Engine* engine, const ChatTemplate* chat_template,
                                  SystemText system) {
  MOORING_ASSIGN_OR_RETURN(const ConversationId id, engine->Open());
  return Dialogue(engine, chat_template, id,
                  {.system = std::move(system), .system_is_new = true, .turns = {}});
}

Dialogue::Dialogue(Engine* engine, const ChatTemplate* chat_template, ConversationId id,
                   DialogueState state)
    : engine_(engine), chat_template_(chat_template), id_(id), state_(std::move(state)) {}

Dialogue::Dialogue(Dialogue&& other) noexcept
    : engine_(std::exchange(other.engine_, nullptr)),
      chat_template_(other.chat_template_),
      id_(other.id_),
      state_(std::move(other.state_)) {}

Dialogue::~Dialogue() {
  if (engine_ != nullptr) engine_->Close(id_);
}

int64_t Dialogue::user_turns() const {
  return std::ranges::count(state_.turns, "user", &TurnRecord::role);
}

void Dialogue::SetSystem(SystemText system) {
  state_.system = std::move(system);
  state_.system_is_new = true;
}

LogIndex Dialogue::log_end() const { return engine_->Find(id_)->log().end(); }

Result<std::vector<TokenId>> Dialogue::RenderNew(std::string_view text) const {
  const Tokenizer& tokenizer = engine_->tokenizer();
  const TokenLog& log = engine_->Find(id_)->log();
  std::vector<ChatMessage> messages;
  if (log.empty()) {
    if (state_.system) messages.push_back({"system", *state_.system});
    messages.push_back({"user", std::string(text)});
    MOORING_ASSIGN_OR_RETURN(const std::vector<TextPart> parts,
                             chat_template_->Render(messages, true));
    return EncodeParts(parts, tokenizer);
  }
  // Instructions that were withdrawn cannot be unsaid: nothing is rendered for them.
  const bool new_system = state_.system_is_new && state_.system && !state_.system->empty();
  if (new_system) messages.push_back({"system", *state_.system});
  messages.push_back({"user", std::string(text)});
  Result<std::vector<TextPart>> parts = chat_template_->RenderDelta(state_.system, messages);
  if (!parts.ok() && parts.error().kind == ErrorKind::kUsage && new_system) {
    // The template has no place for a system message in the middle of a talk.
    messages = {{"user", fmt::format("{}\n\n{}", *state_.system, text)}};
    parts = chat_template_->RenderDelta(state_.system, messages);
  }
  if (!parts.ok()) return std::move(parts).error();
  return EncodeParts(*parts, tokenizer, log.token(log.end() - 1));
}

Result<Dialogue::Outcome> Dialogue::Run(TurnRequest request, Sink* sink,
                                        const std::atomic<bool>* interrupted) {
  Recorder recorder(sink);
  MOORING_RETURN_IF_ERROR(RunTurn(engine_, id_, std::move(request), &recorder, interrupted));
  return recorder.outcome();
}

bool Dialogue::RecordMessage(std::string_view text, LogIndex from, LogIndex to, bool whole) {
  if (to == from) return false;
  if (state_.system_is_new && whole) {
    if (state_.system) state_.turns.push_back({"system", *state_.system, from, to});
    state_.system_is_new = false;
  }
  state_.turns.push_back({"user", std::string(text), from, to});
  return true;
}

Result<TurnEnd> Dialogue::Say(std::string_view text, TurnRequest request, Sink* sink,
                              const std::atomic<bool>* interrupted) {
  MOORING_ASSIGN_OR_RETURN(request.tokens, RenderNew(text));
  const LogIndex from = log_end();
  const auto read = static_cast<int64_t>(request.tokens.size());
  MOORING_ASSIGN_OR_RETURN(Outcome outcome, Run(std::move(request), sink, interrupted));
  const LogIndex to = {std::min(from.value + read, log_end().value)};
  const bool whole = to - from == read;
  if (RecordMessage(text, from, to, whole) && whole) {
    state_.turns.push_back({"assistant", std::move(outcome.text), to, log_end()});
  }
  return outcome.end;
}

Status Dialogue::ReadMessage(std::string_view text, const std::atomic<bool>* interrupted) {
  TurnRequest request;
  MOORING_ASSIGN_OR_RETURN(request.tokens, RenderNew(text));
  const LogIndex from = log_end();
  const auto read = static_cast<int64_t>(request.tokens.size());
  MOORING_ASSIGN_OR_RETURN(const Outcome outcome, Run(std::move(request), nullptr, interrupted));
  RecordMessage(text, from, log_end(), log_end() - from == read);
  return StatusOfReading(outcome.end);
}

Status Dialogue::ReadAnswer(std::string_view text, const std::atomic<bool>* interrupted) {
  CHECK(!state_.turns.empty() && state_.turns.back().role == "user");
  TurnRequest request;
  request.tokens = engine_->tokenizer().Encode(text, Trust::kUntrusted);
  const LogIndex from = log_end();
  Outcome outcome;
  if (!request.tokens.empty()) {
    MOORING_ASSIGN_OR_RETURN(outcome, Run(std::move(request), nullptr, interrupted));
  }
  state_.turns.push_back({"assistant", std::string(text), from, log_end()});
  return StatusOfReading(outcome.end);
}

}  // namespace mooring
