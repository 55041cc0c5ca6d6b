#include "talk/dialogue.h"

#include <fmt/format.h>

#include <algorithm>
#include <utility>

#include "talk/spelling.h"

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
  void OnRecall(std::span<const RecalledSpan> recalled) override {
    if (next_ != nullptr) next_->OnRecall(recalled);
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
                  {.system = std::move(system), .system_is_new = true, .turns = {}, .vectors = {}});
}

Dialogue::Dialogue(Engine* engine, const ChatTemplate* chat_template, ConversationId id,
                   DialogueState state)
    : engine_(engine),
      chat_template_(chat_template),
      id_(id),
      system_(std::move(state.system)),
      system_is_new_(state.system_is_new),
      kept_vectors_(std::move(state.vectors)) {
  for (const TurnRecord& turn : state.turns) AddTurn(turn.role, turn.text, turn.from, turn.to);
}

Dialogue::Dialogue(Dialogue&& other) noexcept
    : engine_(std::exchange(other.engine_, nullptr)),
      chat_template_(other.chat_template_),
      id_(other.id_),
      system_(std::move(other.system_)),
      system_is_new_(other.system_is_new_),
      turns_(std::move(other.turns_)),
      texts_(std::move(other.texts_)),
      memory_(std::move(other.memory_)),
      kept_vectors_(std::move(other.kept_vectors_)),
      indexed_turns_(other.indexed_turns_) {}

Dialogue::~Dialogue() {
  if (engine_ != nullptr) engine_->Close(id_);
}

Result<Dialogue> Dialogue::Fork() const {
  MOORING_ASSIGN_OR_RETURN(const ConversationId id, engine_->Fork(id_));
  Dialogue fork(
      engine_, chat_template_, id,
      {.system = system_, .system_is_new = system_is_new_, .turns = {}, .vectors = kept_vectors_});
  fork.turns_ = turns_;
  fork.texts_ = texts_;
  fork.memory_ = memory_;
  fork.indexed_turns_ = indexed_turns_;
  return fork;
}

int64_t Dialogue::user_turns() const { return std::ranges::count(turns_, "user", &Turn::role); }

TurnRecord Dialogue::turn(size_t i) const {
  const Turn& turn = turns_[i];
  TurnRecord record = {.role = turn.role, .text = {}, .from = turn.from, .to = turn.to};
  const auto kept = texts_.find(i);
  if (kept != texts_.end()) {
    record.text = kept->second;
    return record;
  }
  record.text =
      Spelled(engine_->Find(id_)->log(), engine_->tokenizer(), {turn.text_from, turn.text_to});
  return record;
}

int64_t Dialogue::MessageTokens(size_t first) const {
  for (size_t i = turns_.size(); i > first; --i) {
    if (turns_[i - 1].role == "user") return turns_[i - 1].to - turns_[i - 1].from;
  }
  return 0;
}

void Dialogue::AddTurn(std::string_view role, std::string_view text, LogIndex from, LogIndex to) {
  Turn turn = {KnownRole(role), from, to, from, from};
  CHECK(!turn.role.empty());
  const auto spelled =
      FindSpelled(engine_->Find(id_)->log(), engine_->tokenizer(), {from, to}, text);
  if (spelled) {
    turn.text_from = spelled->from;
    turn.text_to = spelled->to;
  } else {
    texts_.emplace(turns_.size(), text);
  }
  turns_.push_back(turn);
}

void Dialogue::SetSystem(SystemText system) {
  system_ = std::move(system);
  system_is_new_ = true;
}

LogIndex Dialogue::log_end() const { return engine_->Find(id_)->log().end(); }

TalkPlace Dialogue::place() const {
  const TokenLog& log = engine_->Find(id_)->log();
  TalkPlace place = {.system = system_,
                     .system_is_new = system_is_new_,
                     .awaits_answer = !turns_.empty() && turns_.back().role == "user",
                     .last = {}};
  if (!log.empty()) place.last = log.token(log.end() - 1);
  return place;
}

Result<std::vector<TokenId>> Dialogue::RenderNew(std::string_view role,
                                                 std::string_view text) const {
  const ChatMessage message = {std::string(role), std::string(text)};
  MOORING_ASSIGN_OR_RETURN(TurnText turn, RenderTurn(*chat_template_, engine_->tokenizer(), place(),
                                                     std::span(&message, 1)));
  return std::move(turn.tokens);
}

Result<Dialogue::Outcome> Dialogue::Run(TurnRequest request, Sink* sink,
                                        const std::atomic<bool>* interrupted) {
  Recorder recorder(sink);
  MOORING_RETURN_IF_ERROR(RunTurn(engine_, id_, std::move(request), &recorder, interrupted));
  return recorder.outcome();
}

bool Dialogue::RecordMessage(std::string_view text, LogIndex from, LogIndex to, bool whole) {
  if (to == from) return false;
  if (system_is_new_ && whole) {
    if (system_) AddTurn("system", *system_, from, to);
    system_is_new_ = false;
  }
  AddTurn("user", text, from, to);
  return true;
}

void Dialogue::Remember(const TermTable* terms, Meaning meaning) {
  const int64_t most = LongMemory::MostTokens(engine_->options().window);
  if (most == 0) return;
  memory_.emplace(&engine_->tokenizer(), terms, most, std::move(meaning));
  indexed_turns_ = 0;
}

std::vector<SpanVector> Dialogue::vectors() const {
  return memory_ && kept_vectors_.empty() ? memory_->VectorsFrom(0) : kept_vectors_;
}

int64_t Dialogue::UserTurnOf(LogIndex index) const {
  int64_t count = 0;
  for (const Turn& turn : turns_) {
    if (turn.from > index) break;
    count += turn.role == "user" ? 1 : 0;
  }
  return count;
}

void Dialogue::IndexRounds() {
  std::vector<MessageRange> messages;
  for (; indexed_turns_ < turns_.size(); ++indexed_turns_) {
    const Turn& turn = turns_[indexed_turns_];
    messages.push_back({turn.role, {turn.from, turn.to}, {turn.text_from, turn.text_to}});
  }
  memory_->Add(engine_->Find(id_)->log(), messages, std::exchange(kept_vectors_, {}));
}

Result<TurnRequest> Dialogue::Begin(std::string_view text, TurnRequest request) {
  MOORING_ASSIGN_OR_RETURN(request.tokens, RenderNew("user", text));
  request.message_start = true;
  if (!memory_) return request;
  // A new message ends the round before.
  IndexRounds();
  if (!request.found.empty()) return request;
  for (const FoundSpan& found : memory_->FindFor(*engine_->Find(id_), text)) {
    request.found.push_back(found.span);
  }
  return request;
}

Result<TurnEnd> Dialogue::Say(std::string_view text, TurnRequest request, Sink* sink,
                              const std::atomic<bool>* interrupted, std::string_view answer_start) {
  MOORING_ASSIGN_OR_RETURN(request, Begin(text, std::move(request)));
  const LogIndex from = log_end();
  const auto message = static_cast<int64_t>(request.tokens.size());
  engine_->tokenizer().Encode(answer_start, Trust::kUntrusted, &request.tokens);
  const auto read = static_cast<int64_t>(request.tokens.size());
  MOORING_ASSIGN_OR_RETURN(Outcome outcome, Run(std::move(request), sink, interrupted));
  const bool whole = log_end() - from >= read;
  const LogIndex to = {std::min(from.value + message, log_end().value)};
  if (RecordMessage(text, from, to, whole) && whole) {
    AddTurn("assistant", std::string(answer_start) + outcome.text, to, log_end());
  }
  return outcome.end;
}

Status Dialogue::ReadMessage(std::string_view text, const std::atomic<bool>* interrupted) {
  MOORING_ASSIGN_OR_RETURN(TurnRequest request, Begin(text, {}));
  const LogIndex from = log_end();
  const auto read = static_cast<int64_t>(request.tokens.size());
  MOORING_ASSIGN_OR_RETURN(const Outcome outcome, Run(std::move(request), nullptr, interrupted));
  RecordMessage(text, from, log_end(), log_end() - from == read);
  return StatusOfReading(outcome.end);
}

Status Dialogue::ReadAnswer(std::string_view text, const std::atomic<bool>* interrupted) {
  CHECK(!turns_.empty() && turns_.back().role == "user");
  TurnRequest request;
  MOORING_ASSIGN_OR_RETURN(request.tokens, RenderNew("assistant", text));
  const LogIndex from = log_end();
  Outcome outcome;
  if (!request.tokens.empty()) {
    MOORING_ASSIGN_OR_RETURN(outcome, Run(std::move(request), nullptr, interrupted));
  }
  AddTurn("assistant", text, from, log_end());
  return StatusOfReading(outcome.end);
}

}  // namespace mooring
