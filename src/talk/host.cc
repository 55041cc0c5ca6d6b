#include "talk/host.h"

#include <fmt/format.h>

#include <algorithm>
#include <chrono>
#include <thread>
#include <utility>

#include "base/clock.h"
#include "base/log.h"
#include "talk/host_turn.h"
#include "talk/memory_events.h"
#include "talk/spelling.h"

namespace mooring {
namespace {

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

Host::Host(Engine* engine, const ChatTemplate* chat_template, Store* store, HostOptions options)
    : engine_(engine),
      chat_template_(chat_template),
      options_(std::move(options)),
      engine_numbers_(engine->numbers()),  // who asks before the first step is told the truth
      residents_(engine, options_.parked_bytes,
                 [this](std::string conversation, std::string snapshot) {
                   KeepSnapshot(std::move(conversation), std::move(snapshot));
                 }),
      store_queue_(std::make_unique<StoreQueue>(store)),
      engine_thread_(std::make_unique<EngineThread>(engine, [this] { return FinishEnded(); })) {
  if (!options_.snapshots.empty()) {
    snapshots_.emplace(options_.snapshots, options_.identity + "/" + options_.numerics,
                       options_.snapshot_bytes);
  }
}

Host::~Host() {
  draining_ = true;
  while (turns_ > 0) {
    CancelAll();
    std::this_thread::sleep_for(std::chrono::milliseconds(1));
  }
  engine_thread_.reset();
  residents_.GiveAwayAll();
  store_queue_.reset();
}

// Written on the store's thread; what it costs when it fails is time.
void Host::KeepSnapshot(std::string conversation, std::string snapshot) {
  if (!snapshots_ || conversation.empty()) return;
  store_queue_->Post({[this, conversation = std::move(conversation),
                       snapshot = std::move(snapshot)](Store& /*store*/) {
                        const Status saved = snapshots_->Save(conversation, snapshot);
                        if (saved.ok()) return;
                        spdlog::warn("keys and values were not kept: {}", saved.error().Message());
                      },
                      [](const Status& /*durable*/) {}});
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
    waiting_.ForEach([](const std::shared_ptr<Turn>& turn) { turn->cancelled = true; });
    StartWaiting();
  });
}

void Host::Enqueue(const std::shared_ptr<Turn>& turn) {
  waiting_.Push(turn->order.owner, turn);
  StartWaiting();
}

void Host::StartWaiting() {
  while (!waiting_.empty()) {
    const std::shared_ptr<Turn> turn = waiting_.front();
    if (!Start(turn)) break;
    waiting_.Pop();
  }
  // One that waits for a place may be given up before it gets one.
  for (const auto& turn :
       waiting_.Extract([](const std::shared_ptr<Turn>& of) { return of->cancelled.load(); })) {
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
  if (known == nullptr && !turn->loaded && !turn->tip.empty()) {
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
    bool spared = false;
    auto added = residents_.Add(conversation, turn->log, turn->journal, turn->snapshot, &spared);
    const bool rebuilt = turn->log_from.value > 0 && !spared;
    if (!added.ok()) {
      GiveUp(turn, Refusal::kFailed, added.error());
      return true;
    }
    if (*added == nullptr) return false;
    turn->resident = *added;
    turn->resident->place = turn->place;
    turn->resident->tip = turn->spoken_tip;
    turn->resident->memory = turn->loaded ? std::move(turn->memory) : NewMemory();
    turn->log = {};
    turn->snapshot = {};
    if (spared) {
      const Conversation& opened = *engine_->Find(turn->resident->id);
      // But for what was said behind it; the token that was sampled last is never read yet.
      const int64_t unread = std::max<int64_t>(0, opened.pending_rows() - 1);
      turn->result.cached_tokens = std::max<int64_t>(0, NumbersOf(opened).seen() - unread);
    }
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
    Remember(*turn, &request);
  }
  // Never beyond the conversations of its owner, and nothing of what is not to be kept.
  if (turn->kept()) request.shares_as = "owner:" + turn->order.owner;
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

std::optional<ResidentMemory> Host::NewMemory() const {
  const int64_t most = LongMemory::MostTokens(engine_->options().window);
  if (options_.terms == nullptr || most == 0) return std::nullopt;
  return ResidentMemory{
      .index = LongMemory(&engine_->tokenizer(), options_.terms, most, options_.meaning)};
}

// What the message of this turn is about is looked for among the rounds before it.
void Host::Remember(Turn& turn, TurnRequest* request) {
  std::optional<ResidentMemory>& memory = turn.resident->memory;
  if (!memory || turn.spans.empty() || turn.spans.back().role != "user") return;
  const Conversation& conversation = *engine_->Find(turn.resident->id);
  memory->IndexSaid(conversation.log());
  request->message_start = true;
  turn.found = memory->index.FindFor(conversation, turn.spans.back().text);
  for (const FoundSpan& found : turn.found) request->found.push_back(found.span);
}

// What memory did for the turn goes to the store with it, and what was said in it, to where the
// next message of the user will index it.
void Host::KeepSaid(Turn& turn, TurnFinish* finish) {
  Resident& resident = *turn.resident;
  const Conversation& conversation = *engine_->Find(resident.id);
  const TokenLog& log = conversation.log();
  if (!resident.memory) return;
  for (const SpanVector& vector : resident.memory->index.VectorsFrom(resident.memory->stored)) {
    finish->events.push_back(EventOf(turn.log_from, vector));
  }
  resident.memory->stored = resident.memory->index.index().span_count();
  for (const JournalEntry& entry : conversation.journal()) {
    if (entry.message < turn.log_from) continue;
    if (entry.message >= log.end()) {
      resident.conversation.clear();  // a plan for a message of which nothing was read
      return;
    }
    finish->events.push_back(EventOf(entry));
  }
  for (const RecalledSpan& held : turn.held) {
    if (held.messages > 0) continue;  // it stayed from the message before
    const auto found = std::ranges::find_if(turn.found, [&held](const FoundSpan& span) {
      return span.span.range.Overlaps(held.range);
    });
    const double score = found == turn.found.end() ? 0.0 : found->score;
    finish->events.push_back(EventOf(RecallNote{turn.log_from, held.range, score}));
    turn.result.recalled.push_back({.range = held.range, .score = score});
  }
  const auto said = [&](std::string_view role, std::string_view text, LogRange all) {
    if (all.tokens() <= 0) return;
    const auto words = FindSpelled(log, engine_->tokenizer(), all, text);
    resident.memory->said.push_back({role, all, words.value_or(LogRange{all.from, all.from})});
  };
  LogIndex from = turn.log_from;
  for (const TurnSpan& span : turn.spans) {
    const LogIndex to = std::min(turn.log_from + static_cast<int64_t>(span.to), log.end());
    said(span.role, span.text, {from, to});
    from = to;
  }
  said("assistant", turn.answer, {from, log.end()});
}

bool Host::FinishEnded() {
  NoteEngine();
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
  return any;
}

// Keeps what was said, and then tells the end.
void Host::Finish(const std::shared_ptr<Turn>& turn) {
  TurnFinish finish;
  TurnResult& result = turn->result;
  if (turn->resident != nullptr) {
    const Conversation& conversation = *engine_->Find(turn->resident->id);
    const TokenLog& log = conversation.log();
    result.window = NumbersOf(conversation);
    // Without new messages (the last answer is asked for again) all that was read is the answer's.
    if (turn->message_ids.empty()) turn->spans.clear();
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
      KeepSaid(*turn, &finish);
      if (!log.empty()) turn->resident->place.last = log.token(log.end() - 1);
      if (!finish.tokens.ids.empty()) {
        turn->resident->place.awaits_answer = false;
        turn->resident->tip = turn->accepted.answer;
      } else if (!turn->spans.empty()) {
        turn->resident->tip = turn->message_ids[turn->spans.back().message];
      }
    }
  }
  result.cached_tokens =
      std::min(result.prompt_tokens, result.cached_tokens + result.stats.shared_tokens);
  counters_.prompt_tokens += result.new_tokens;
  counters_.cached_tokens += result.cached_tokens;
  counters_.generated_tokens += result.stats.generated_tokens;
  for (const RecalledText& recalled : result.recalled) {
    counters_.recalled_tokens += recalled.range.tokens();
  }
  Resident* resident = std::exchange(turn->resident, nullptr);
  if (!turn->kept()) {
    if (resident != nullptr) residents_.Release(resident);
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
         const ConversationKey key = {turn->order.owner, turn->accepted.conversation};
         *kept = store.Finish(key, finish);
         for (RecalledText& recalled : turn->result.recalled) {
           const auto place = store.MessageAt(key, recalled.range.from);
           if (!place.ok()) continue;
           recalled.item = place->id;
           recalled.turn = place->turn;
         }
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
  // Only now: what it may give away is written behind the answer.
  if (resident == nullptr) return;
  if (resident->memory) {
    engine_->ReadAhead(resident->id,
                       resident->memory->SpansToReadAhead(*engine_->Find(resident->id)));
  }
  residents_.Release(resident);
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

void Host::Look(std::string conversation, std::function<void(std::optional<WindowView>)> then) {
  engine_thread_->Post([this, conversation = std::move(conversation), then = std::move(then)] {
    then(residents_.Look(conversation));
  });
}

void Host::Forget(std::string conversation) {
  engine_thread_->Post([this, conversation = std::move(conversation)] {
    residents_.Forget(conversation);
    engine_->DropKept();  // its words may be among that
    store_queue_->Post({[this, conversation](Store& /*store*/) {
                          if (snapshots_) snapshots_->Remove(conversation);
                        },
                        [](const Status& /*durable*/) {}});
    NoteResidents();
  });
}

void Host::NoteResidents() {
  const ResidentCounts counts = residents_.Count();
  counters_.in_engine = counts.in_engine;
  counters_.parked = counts.parked;
  counters_.parked_bytes = counts.parked_bytes;
  NoteEngine();
}

void Host::NoteEngine() {
  const EngineNumbers numbers = engine_->numbers();
  const std::lock_guard lock(numbers_mutex_);
  engine_numbers_ = numbers;
}

}  // namespace mooring
