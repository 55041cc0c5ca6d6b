#include "talk/host.h"

#include <fmt/format.h>

#include <algorithm>
#include <chrono>
#include <thread>
#include <utility>

#include "base/clock.h"
#include "base/log.h"
#include "talk/conversation_names.h"

namespace mooring {
namespace {

using Refused = std::optional<std::pair<Refusal, Error>>;

// What the store said, in a caller's terms.
Refusal RefusalOf(const Error& error) {
  switch (error.kind) {
    case ErrorKind::kNotFound:
      return Refusal::kNotFound;
    case ErrorKind::kUsage:
      return Refusal::kInvalid;
    case ErrorKind::kResources:
      return Refusal::kDiskFull;
    default:
      return Refusal::kFailed;
  }
}

Refused Refuse(const Error& error) { return std::pair(RefusalOf(error), error); }

std::string_view MatchedName(MatchKind kind) {
  switch (kind) {
    case MatchKind::kNew:
      return "id";
    case MatchKind::kExact:
      return "exact";
    case MatchKind::kSuffix:
      return "suffix";
    case MatchKind::kFork:
      return "fork";
  }
  return "new";
}

LogTokens TokensOf(const TokenLog& log, LogIndex from, LogIndex to) {
  LogTokens tokens;
  for (LogIndex at = from; at < to; at = at + 1) {
    tokens.ids.push_back(log.token(at));
    tokens.generated.push_back(log.generated(at));
  }
  return tokens;
}

void KeepRead(const std::string& message, LogTokens tokens, std::vector<ReadTokens>* read) {
  if (read->empty() || read->back().message != message) {
    read->push_back({message, std::move(tokens)});
    return;
  }
  LogTokens& before = read->back().tokens;
  before.ids.insert(before.ids.end(), tokens.ids.begin(), tokens.ids.end());
  before.generated.insert(before.generated.end(), tokens.generated.begin(), tokens.generated.end());
}

}  // namespace

// A turn from its order to its end. The store's thread has it until it is accepted, then the
// engine's, which gives it back to be finished.
class Host::Turn : public Sink {
 public:
  Turn(TurnOrder wanted, std::shared_ptr<TurnListener> who)
      : order(std::move(wanted)), listener(std::move(who)) {}

  bool kept() const { return !accepted.conversation.empty(); }
  void OnText(std::string_view text) override {
    answer += text;
    listener->OnText(text);
  }
  void OnToken(const SampledToken& token) override { listener->OnToken(token); }
  void OnLogits(LogIndex /*index*/, std::span<const float> logits) override {
    listener->OnLogits(logits);
  }
  void OnEnd(TurnEnd end, const TurnStats& stats) override {
    result.end = end;
    result.stats = stats;
    ended = true;
  }

  TurnOrder order;
  std::shared_ptr<TurnListener> listener;
  const double ordered_seconds = MonotonicSeconds();
  TurnAccepted accepted;
  TurnResult result;
  std::atomic<bool> cancelled = false;

  // Of the store: where the turn begins, and what is to be said there.
  std::string tip;  // the last message before it
  LogIndex log_from = {};
  std::vector<ChatMessage> messages;
  std::vector<std::string> message_ids;  // of `messages`; empty for one of an earlier turn

  // A log read from the store, for a conversation that is not in the engine.
  bool loaded = false;
  std::string spoken_tip;
  TokenLog log;
  TalkPlace place;
  std::vector<ChatMessage> unread;  // earlier messages whose tokens the model has not seen

  Resident* resident = nullptr;
  std::vector<TurnSpan> spans;
  std::string answer;
  bool ended = false;
};

Host::Host(Engine* engine, const ChatTemplate* chat_template, Store* store, HostOptions options)
    : engine_(engine),
      chat_template_(chat_template),
      options_(std::move(options)),
      residents_(engine, options_.parked_bytes),
      store_queue_(std::make_unique<StoreQueue>(store)),
      engine_thread_(std::make_unique<EngineThread>(engine, [this] { FinishEnded(); })) {}

Host::~Host() {
  draining_ = true;
  while (turns_ > 0) {
    CancelAll();
    std::this_thread::sleep_for(std::chrono::milliseconds(1));
  }
  engine_thread_.reset();
  store_queue_.reset();
}

Host::Ticket Host::Say(TurnOrder order, std::shared_ptr<TurnListener> listener) {
  if (draining_) {
    listener->OnRefused(Refusal::kDraining, {.kind = ErrorKind::kStateHeld,
                                             .what = "the server is ending and takes no new turns",
                                             .remedy = "try again in a moment"});
    return {};
  }
  if (turns_.fetch_add(1) >= static_cast<int64_t>(options_.queue)) {
    --turns_;
    listener->OnRefused(Refusal::kQueueFull, {.kind = ErrorKind::kStateHeld,
                                              .what = "too many turns are waiting",
                                              .expected = fmt::format("at most {}", options_.queue),
                                              .remedy = "try again in a moment"});
    return {};
  }
  auto turn = std::make_shared<Turn>(std::move(order), std::move(listener));
  ++counters_.waiting;
  if (!turn->order.keep) {
    turn->accepted.matched = "new";
    for (const RequestMessage& message : turn->order.messages) {
      turn->messages.push_back({message.role, message.text});
    }
    turn->message_ids.resize(turn->messages.size());
    turn->loaded = true;
    turn->listener->OnAccepted(turn->accepted);
    engine_thread_->Post([this, turn] { Enqueue(turn); });
    return turn;
  }
  auto refused = std::make_shared<Refused>();
  store_queue_->Post({[this, turn, refused](Store& store) { *refused = Accept(store, *turn); },
                      [this, turn, refused](const Status& durable) {
                        if (!durable.ok() && !*refused) *refused = Refuse(durable.error());
                        engine_thread_->Post([this, turn, refused] {
                          if (*refused) {
                            GiveUp(turn, (*refused)->first, (*refused)->second);
                            return;
                          }
                          turn->listener->OnAccepted(turn->accepted);
                          Enqueue(turn);
                        });
                      }});
  return turn;
}

void Host::Cancel(const Ticket& ticket) {
  const auto turn = std::static_pointer_cast<Turn>(ticket.lock());
  if (turn == nullptr) return;
  turn->cancelled = true;
  engine_thread_->Post([this, turn] {
    const bool running = std::ranges::find(running_, turn) != running_.end();
    if (running) engine_->Cancel(turn->resident->id);
    StartWaiting();
  });
}

void Host::CancelAll() {
  engine_thread_->Post([this] {
    for (const auto& turn : running_) engine_->Cancel(turn->resident->id);
    for (const auto& turn : waiting_) turn->cancelled = true;
    StartWaiting();
  });
}

Refused Host::Locate(Store& store, Turn& turn, Recognised* place) const {
  const TurnOrder& order = turn.order;
  const RequestHistory history(order.messages);
  const NewConversation fresh = {
      .model = options_.model, .identity = options_.identity, .settings = {}, .system = {}};
  if (!order.previous_response.empty()) {
    auto found = store.FindResponse(order.owner, order.previous_response);
    if (!found.ok()) {
      return std::pair(found.error().kind == ErrorKind::kNotFound ? Refusal::kResponseNotFound
                                                                  : RefusalOf(found.error()),
                       found.error());
    }
    auto info = store.Find(order.owner, found->conversation);
    if (!info.ok()) return Refuse(info.error());
    *place = {.conversation = *info};
    place->verdict = AlignRequest({}, history, info->system_hash);
    if (info->tip != found->message) {
      place->after = found->message;
      place->verdict.kind = MatchKind::kFork;
    }
    turn.accepted.matched = MatchedName(place->verdict.kind);
    return std::nullopt;
  }
  if (order.conversation.empty() && order.match) {
    auto found = Recognise(&store, order.owner, history);
    if (!found.ok()) return Refuse(found.error());
    if (*found) {
      *place = std::move(**found);
      turn.accepted.matched = MatchedName(place->verdict.kind);
      return std::nullopt;
    }
  }
  const bool named = !order.conversation.empty();
  auto info = named ? store.FindOrCreate(order.owner, order.conversation, fresh)
                    : store.Create(order.owner, fresh);
  if (!info.ok()) return Refuse(info.error());
  if (named && order.resent) {
    auto aligned = Align(&store, order.owner, *info, history);
    if (!aligned.ok()) return Refuse(aligned.error());
    *place = std::move(*aligned);
  } else {
    *place = {.conversation = *info};
    place->verdict = AlignRequest({}, history, info->system_hash);
  }
  turn.accepted.matched = info->tip.empty() ? "new" : MatchedName(place->verdict.kind);
  return std::nullopt;
}

Refused Host::Accept(Store& store, Turn& turn) const {
  Recognised place;
  if (Refused refused = Locate(store, turn, &place)) return refused;
  const ConversationInfo& info = place.conversation;
  if (info.identity != options_.identity && info.log_end.value > 0) {
    return std::pair(Refusal::kOtherModel,
                     Error{.kind = ErrorKind::kConfig,
                           .what = "the conversation was held with another model or build",
                           .where = info.id,
                           .expected = options_.model,
                           .found = info.model,
                           .remedy = "serve that model, or begin a new conversation"});
  }
  TurnStart start;
  start.after = place.after;
  start.if_turn = turn.order.if_turn;
  start.system = place.verdict.instructions;
  start.response_id = turn.order.response_id;
  start.seed = turn.order.request.sampler.seed;
  if (start.system) turn.messages.push_back({"system", *start.system});
  for (size_t i = place.verdict.first_new; i < turn.order.messages.size(); ++i) {
    const RequestMessage& message = turn.order.messages[i];
    if (IsInstruction(message.role)) continue;
    start.messages.push_back({message.role, message.text});
    turn.messages.push_back({message.role, message.text});
  }
  const auto accepted = store.Accept({turn.order.owner, info.id}, start);
  if (!accepted.ok()) return Refuse(accepted.error());
  if (accepted->kind == AcceptKind::kBusy) {
    return std::pair(Refusal::kBusy, Error{.kind = ErrorKind::kStateHeld,
                                           .what = "the conversation is answering another request",
                                           .where = info.id,
                                           .remedy = "try again when that has ended"});
  }
  if (accepted->kind != AcceptKind::kAccepted) {
    return std::pair(Refusal::kChanged,
                     Error{.kind = ErrorKind::kStateHeld,
                           .what = "the conversation has gone on since",
                           .where = info.id,
                           .expected = fmt::format("{} turns", turn.order.if_turn.value_or(0)),
                           .found = fmt::format("{} turns", accepted->turns)});
  }
  const AcceptedTurn& kept = accepted->turn;
  if (start.system) turn.message_ids.push_back(kept.instructions);
  turn.message_ids.insert(turn.message_ids.end(), kept.messages.begin(), kept.messages.end());
  turn.accepted.conversation = info.id;
  turn.accepted.answer = kept.answer;
  turn.accepted.turn = kept.turn;
  turn.log_from = kept.log_from;
  turn.tip = place.after.value_or(info.tip);
  return std::nullopt;
}

// All that was said before the turn. Messages behind the last that has tokens are still to be read.
Status Host::LoadLog(Store& store, Turn& turn) const {
  MOORING_ASSIGN_OR_RETURN(const std::vector<StoredMessage> chain,
                           store.LoadChain({turn.order.owner, turn.accepted.conversation},
                                           {.branch = {}, .tokens = true}));
  for (const StoredMessage& message : chain) {
    if (turn.tip.empty()) break;
    const bool spoken = !message.tokens.ids.empty();
    for (size_t i = 0; i < message.tokens.ids.size(); ++i) {
      turn.log.Append(message.tokens.ids[i], message.tokens.generated[i]);
    }
    if (spoken) {
      // Instructions have no tokens of their own: they were read with what came behind them.
      for (const ChatMessage& earlier : turn.unread) {
        if (earlier.role == "system") turn.place.system = earlier.content;
      }
      turn.unread.clear();
      turn.spoken_tip = message.id;
      turn.place.system_is_new = false;
      turn.place.awaits_answer = message.role == "user";
      turn.place.last = message.tokens.ids.back();
    } else if (message.role != "assistant" || !message.text.empty()) {
      turn.unread.push_back({IsInstruction(message.role) ? "system" : message.role, message.text});
    }
    if (message.id == turn.tip) break;
  }
  turn.loaded = true;
  if (turn.log.end() == turn.log_from) return {};
  return Error{.kind = ErrorKind::kFailed,
               .what = "the tokens of the conversation are not all there",
               .where = turn.accepted.conversation,
               .expected = fmt::format("{}", turn.log_from.value),
               .found = fmt::format("{}", turn.log.end().value)};
}

void Host::Enqueue(const std::shared_ptr<Turn>& turn) {
  waiting_.push_back(turn);
  StartWaiting();
}

void Host::StartWaiting() {
  while (!waiting_.empty()) {
    const std::shared_ptr<Turn> turn = waiting_.front();
    if (!Start(turn)) break;
    waiting_.pop_front();
  }
  // One that waits for a place may be given up before it gets one.
  for (size_t i = waiting_.size(); i > 0; --i) {
    const std::shared_ptr<Turn> turn = waiting_[i - 1];
    if (!turn->cancelled) continue;
    waiting_.erase(waiting_.begin() + static_cast<std::ptrdiff_t>(i - 1));
    turn->result.end = TurnEnd::kCancelled;
    Finish(turn);
  }
  NoteResidents();
}

// Gives the turn its conversation; false when every place is busy.
bool Host::Start(const std::shared_ptr<Turn>& turn) {
  if (turn->cancelled) {
    turn->result.end = TurnEnd::kCancelled;
    Finish(turn);
    return true;
  }
  const std::string& conversation = turn->accepted.conversation;
  Resident* known = nullptr;
  if (turn->kept()) {
    known = residents_.Find(conversation, turn->loaded ? turn->spoken_tip : turn->tip);
  }
  if (known == nullptr && !turn->loaded && turn->log_from.value > 0) {
    auto loaded = std::make_shared<Status>();
    store_queue_->Post({[this, turn, loaded](Store& store) { *loaded = LoadLog(store, *turn); },
                        [this, turn, loaded](const Status& /*durable*/) {
                          engine_thread_->Post([this, turn, loaded] {
                            if (loaded->ok()) {
                              Enqueue(turn);
                            } else {
                              GiveUp(turn, Refusal::kFailed, loaded->error());
                            }
                          });
                        }});
    return true;  // it comes back
  }
  if (known != nullptr) {
    const Result<bool> awake = residents_.Wake(known);
    if (!awake.ok()) {
      residents_.Drop(known);
      return Start(turn);
    }
    if (!*awake) return false;
    turn->resident = known;
    turn->result.cached_tokens = NumbersOf(*engine_->Find(known->id)).seen();
  } else {
    const bool rebuilt = turn->log_from.value > 0;
    auto added = residents_.Add(conversation, turn->log);
    if (!added.ok()) {
      GiveUp(turn, Refusal::kFailed, added.error());
      return true;
    }
    if (*added == nullptr) return false;
    turn->resident = *added;
    turn->resident->place = turn->place;
    turn->resident->tip = turn->spoken_tip;
    turn->log = {};
    if (rebuilt) {
      ++counters_.rebuilt;
      turn->result.warnings.emplace_back("memory_rebuilt");
    }
  }
  Begin(turn);
  return true;
}

void Host::Begin(const std::shared_ptr<Turn>& turn) {
  TurnRequest request = std::move(turn->order.request);
  if (!turn->order.raw) {
    std::vector<ChatMessage> messages = turn->unread;
    messages.insert(messages.end(), turn->messages.begin(), turn->messages.end());
    Result<TurnText> text =
        RenderTurn(*chat_template_, engine_->tokenizer(), turn->resident->place, messages);
    if (!text.ok()) {
      GiveUp(turn, Refusal::kTemplate, text.error());
      return;
    }
    turn->spans = std::move(text->spans);
    for (TurnSpan& span : turn->spans) {
      // What was unread belongs to the first message of this turn.
      span.message = span.message < turn->unread.size() ? 0 : span.message - turn->unread.size();
    }
    turn->resident->place = std::move(text->place);
    request.tokens = std::move(text->tokens);
  }
  turn->result.new_tokens = static_cast<int64_t>(request.tokens.size());
  turn->result.queue_seconds = MonotonicSeconds() - turn->ordered_seconds;
  const Conversation* conversation = engine_->Find(turn->resident->id);
  const int64_t log_end = conversation->log().end().value + turn->result.new_tokens;
  turn->log_from = conversation->log().end();
  turn->result.prompt_tokens = std::min<int64_t>(log_end, conversation->window().shape().capacity);
  turn->result.cached_tokens = std::max<int64_t>(
      0,
      std::min(turn->result.cached_tokens, turn->result.prompt_tokens - turn->result.new_tokens));
  const Status submitted = engine_->Submit(turn->resident->id, std::move(request), turn.get());
  if (!submitted.ok()) {
    GiveUp(turn, Refusal::kInvalid, submitted.error());
    return;
  }
  --counters_.waiting;
  ++counters_.running;
  running_.push_back(turn);
}

void Host::FinishEnded() {
  bool any = false;
  for (auto at = running_.begin(); at != running_.end();) {
    const std::shared_ptr<Turn> turn = *at;
    if (!turn->ended) {
      ++at;
      continue;
    }
    at = running_.erase(at);
    --counters_.running;
    ++counters_.waiting;  // for its commit
    Finish(turn);
    any = true;
  }
  if (any) StartWaiting();
}

// Keeps what was said, and then tells the end.
void Host::Finish(const std::shared_ptr<Turn>& turn) {
  TurnFinish finish;
  TurnResult& result = turn->result;
  if (turn->resident != nullptr) {
    const Conversation& conversation = *engine_->Find(turn->resident->id);
    const TokenLog& log = conversation.log();
    result.window = NumbersOf(conversation);
    size_t from = 0;
    for (const TurnSpan& span : turn->spans) {
      const LogIndex first = std::min(turn->log_from + static_cast<int64_t>(from), log.end());
      const LogIndex last = std::min(turn->log_from + static_cast<int64_t>(span.to), log.end());
      if (first < last && turn->kept()) {
        KeepRead(turn->message_ids[span.message], TokensOf(log, first, last), &finish.read);
      }
      from = span.to;
    }
    const LogIndex answered = std::min(turn->log_from + static_cast<int64_t>(from), log.end());
    finish.tokens = TokensOf(log, answered, log.end());
    // A log that is shorter than it was before (given up while it was read again), or a message
    // that was read in part, is taken from the store the next time.
    if (log.end() < turn->log_from + static_cast<int64_t>(from) || !turn->kept()) {
      turn->resident->conversation.clear();
    } else {
      if (!log.empty()) turn->resident->place.last = log.token(log.end() - 1);
      if (!finish.tokens.ids.empty()) {
        turn->resident->place.awaits_answer = false;
        turn->resident->tip = turn->accepted.answer;
      } else if (!turn->spans.empty()) {
        turn->resident->tip = turn->message_ids[turn->spans.back().message];
      }
    }
    residents_.Release(std::exchange(turn->resident, nullptr));
  }
  counters_.prompt_tokens += result.new_tokens;
  counters_.cached_tokens += result.cached_tokens;
  counters_.generated_tokens += result.stats.generated_tokens;
  if (!turn->kept()) {
    turn->listener->OnEnd(result);
    Close();
    return;
  }
  finish.answer = turn->accepted.answer;
  finish.text = turn->answer;
  finish.complete = result.end == TurnEnd::kStop || result.end == TurnEnd::kStopString ||
                    result.end == TurnEnd::kLength;
  finish.finish_reason = NameOf(result.end);
  auto kept = std::make_shared<Status>();
  store_queue_->Post(
      {[turn, kept, finish = std::move(finish)](Store& store) {
         *kept = store.Finish({turn->order.owner, turn->accepted.conversation}, finish);
       },
       [this, turn, kept](const Status& durable) {
         turn->result.durable = kept->ok() && durable.ok();
         if (!turn->result.durable) {
           const Error& error = kept->ok() ? durable.error() : kept->error();
           spdlog::error("an answer was not kept: {}", error.Message());
           turn->result.warnings.emplace_back("not_durable");
         }
         turn->listener->OnEnd(turn->result);
         Close();
       }});
}

void Host::GiveUp(const std::shared_ptr<Turn>& turn, Refusal why, const Error& error) {
  if (turn->resident != nullptr) residents_.Drop(std::exchange(turn->resident, nullptr));
  if (turn->kept()) {
    // The messages were kept; their answer is closed, so that the conversation is free again.
    store_queue_->Post(
        {[turn](Store& store) {
           TurnFinish finish;
           finish.answer = turn->accepted.answer;
           finish.complete = false;
           finish.finish_reason = "refused";
           (void)store.Finish({turn->order.owner, turn->accepted.conversation}, finish);
         },
         [](const Status& /*durable*/) {}});
  }
  turn->listener->OnRefused(why, error);
  Close();
}

void Host::Close() {
  --counters_.waiting;
  --turns_;
}

void Host::Look(std::string conversation, std::function<void(std::optional<WindowNumbers>)> then) {
  engine_thread_->Post([this, conversation = std::move(conversation), then = std::move(then)] {
    then(residents_.Look(conversation));
  });
}

void Host::Forget(std::string conversation) {
  engine_thread_->Post([this, conversation = std::move(conversation)] {
    residents_.Forget(conversation);
    NoteResidents();
  });
}

void Host::NoteResidents() {
  const ResidentCounts counts = residents_.Count();
  counters_.in_engine = counts.in_engine;
  counters_.parked = counts.parked;
  counters_.parked_bytes = counts.parked_bytes;
}

}  // namespace mooring
