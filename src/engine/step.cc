// Engine::Step and its five verbs.

#include <algorithm>
#include <array>
#include <utility>

#include "base/clock.h"
#include "base/log.h"
#include "engine/engine.h"

namespace mooring {

bool Engine::Step() {
  const double begun = MonotonicSeconds();
  Drain();
  Plan();
  if (!Schedule() && !ScheduleAhead()) return false;
  const double planned = MonotonicSeconds();
  Forward();
  const double computed = MonotonicSeconds();
  Deliver();
  counters_.plan_seconds += planned - begun;
  counters_.forward_seconds += computed - planned;
  counters_.deliver_seconds += MonotonicSeconds() - computed;
  return true;
}

void Engine::Drain() {
  {
    const std::lock_guard lock(queue_mutex_);
    std::swap(queue_, drained_);
  }
  for (Submitted& submitted : drained_) {
    Conversation* conversation = FindMutable(submitted.id);
    if (submitted.sink == nullptr) {  // the cancel of a turn that is under way
      if (conversation != nullptr && conversation->busy()) {
        EndTurn(*conversation, TurnEnd::kCancelled);
      }
    } else if (submitted.cancel || conversation == nullptr || conversation->busy()) {
      submitted.sink->OnEnd(TurnEnd::kCancelled, {});
    } else {
      StartTurn(*conversation, std::move(submitted));
    }
  }
  drained_.clear();
}

namespace {

// Only what has been said, and can be read again behind the anchors, can come back.
bool CanComeBack(const Window& window, LogIndex message, const OfferedSpan& span) {
  return message.value >= window.shape().anchors && span.range.to <= message;
}

}  // namespace

void Engine::StartTurn(Conversation& conversation, Submitted submitted) {
  const LogIndex message = conversation.log_.end();
  std::erase_if(submitted.request.found, [&](const OfferedSpan& span) {
    return !CanComeBack(conversation.window_, message, span);
  });
  for (const TokenId token : submitted.request.tokens) conversation.log_.Append(token, false);
  StopMatcher stop(submitted.request.stop);
  // The pages are the turn's; what was read ahead so far begins anew.
  conversation.reading_ahead_.reset();
  if (!submitted.request.shares_as.empty()) conversation.shares_as_ = submitted.request.shares_as;
  conversation.turn_.emplace(RunningTurn{.request = std::move(submitted.request),
                                         .sink = submitted.sink,
                                         .message = message,
                                         .stats = {},
                                         .started_seconds = MonotonicSeconds(),
                                         .first_token_seconds = 0.0,
                                         .detokenizer = Detokenizer(*tokenizer_),
                                         .stop = std::move(stop),
                                         .text_bytes = 0,
                                         .shown_bytes = 0,
                                         .token_starts = {}});
  BeginShared(conversation);
  if (conversation.pending_rows() > 0) return;
  // Nothing is left to read. To go on, the last token is read once more for its logits; that writes
  // the same bits again.
  if (conversation.turn_->request.max_tokens > 0 && conversation.window_.RewindBound() > 0) {
    conversation.window_.Rewind(1);
  } else {
    EndTurn(conversation, TurnEnd::kLength);
  }
}

// A window that holds nothing yet begins with pages that are there already, by the law with the
// same bits that it would write. Where a message takes in what was found for it is not passed, and
// the last row is left to be computed: it makes the logits.
void Engine::BeginShared(Conversation& conversation) {
  RunningTurn& turn = *conversation.turn_;
  const std::string& name = turn.request.shares_as;
  if (name.empty() || turn.request.every_logit || conversation.window_.next().value > 0) return;
  int64_t most = conversation.log_.end().value - 1;
  const auto message = conversation.planned_message();
  const bool begins = message && message->value == 0;
  if (message && !begins) most = std::min(most, message->value);
  turn.stats.shared_tokens = prefixes_.Begin(name, conversation.log_, most, &conversation.window_);
  // Before the first message nothing was said that could come back.
  if (turn.stats.shared_tokens > 0 && begins) turn.request.message_start = false;
  // Worth keeping unless most of it is kept already.
  turn.keeps_prefix = conversation.pending_rows() > turn.stats.shared_tokens;
}

void Engine::Plan() {
  for (const auto& conversation : conversations_) {
    if (!conversation->busy() || conversation->pending_rows() == 0) continue;
    arena_.Reset();
    if (conversation->planned_message() == conversation->window_.next()) {
      PlanMessage(*conversation);
    } else {
      conversation->window_.Apply(
          conversation->policy_->Propose(conversation->window_.Facts(), arena_));
    }
  }
}

// Before the first row of a message the window takes in what was found for it, once all of that has
// been read again. The facts stay as they are until then, and so does the plan.
void Engine::PlanMessage(Conversation& conversation) {
  RunningTurn& turn = *conversation.turn_;
  WindowFacts facts = conversation.window_.Facts();
  facts.message_start = true;
  std::array<OfferedSpan, kMaxRecalledSpans> repeated;
  if (conversation.repeats()) {
    size_t count = 0;
    for (size_t i = conversation.repeated_; i < conversation.journal_.size(); ++i) {
      const auto& [message, found] = conversation.journal_[i];
      if (message != facts.next) break;
      if (found.range.tokens() > 0 && CanComeBack(conversation.window_, message, found)) {
        repeated[count++] = found;
      }
    }
    facts.offered = std::span(repeated).first(count);
  } else {
    facts.offered = turn.request.found;
  }
  const bool held_spans = !facts.recalled.empty();
  const ::mooring::Plan plan = conversation.policy_->Propose(facts, arena_);
  if (turn.rereads.empty()) {
    for (const OfferedSpan& span : plan.recall) {
      turn.rereads.push_back({span, conversation.window_.AnchorsAlone()});
      if (spans_.Fill(conversation.span_name(), conversation.log_, span.range,
                      &turn.rereads.back().window)) {
        counters_.spared_tokens += span.range.tokens();
      }
    }
  }
  if (turn.pending_reread() != nullptr) return;
  std::vector<Window> windows;
  for (Reread& reread : turn.rereads) windows.push_back(std::move(reread.window));
  conversation.window_.Apply(plan, true, windows);
  turn.rereads.clear();
  NoteMessage(conversation, held_spans);
}

// The window has followed what was found for the message that begins now.
void Engine::NoteMessage(Conversation& conversation, bool held_spans) {
  PlanJournal& journal = conversation.journal_;
  const LogIndex message = conversation.window_.next();
  if (conversation.repeats()) {
    while (conversation.repeats() && journal[conversation.repeated_].message == message) {
      ++conversation.repeated_;
    }
    return;
  }
  RunningTurn& turn = *conversation.turn_;
  turn.request.message_start = false;
  for (const OfferedSpan& span : turn.request.found) journal.push_back({message, span});
  if (turn.request.found.empty() && held_spans) journal.push_back({message, {}});
  conversation.repeated_ = journal.size();
  turn.sink->OnRecall(conversation.window_.Facts().recalled);
}

bool Engine::Schedule() {
  work_.clear();
  for (const auto& conversation : conversations_) {
    WaitingWork work;
    if (conversation->busy()) {
      int64_t room = conversation->policy_->RoomFor(conversation->window_.Facts());
      if (room <= 0) {
        EndTurn(*conversation, TurnEnd::kWindowFull);
      } else {
        const TurnRequest& request = conversation->turn_->request;
        if (Reread* reread = conversation->turn_->pending_reread()) {
          work.pending_rows = reread->pending();
        } else {
          // What a message answers is read to its end before the message begins.
          if (const auto message = conversation->planned_message()) {
            room = std::min(room, *message - conversation->window_.next());
          }
          work.pending_rows = std::min(conversation->pending_rows(), room);
          work.every_logit = request.every_logit;
          work.wants_logits =
              request.max_tokens > 0 && work.pending_rows == conversation->pending_rows();
        }
      }
    }
    work_.push_back(work);
  }
  scheduled_rows_.resize(work_.size());
  const StepLimits& limits = workspace_.limits();
  schedule_turn_ = ScheduleRows(work_, {limits.rows, limits.logit_rows, limits.parts},
                                schedule_turn_, scheduled_rows_);
  ClearStep();
  Conversation* starved = nullptr;
  for (size_t i = 0; i < work_.size(); ++i) {
    if (scheduled_rows_[i] == 0) continue;
    Conversation& conversation = *conversations_[i];
    if (!AddPart(conversation, work_[i], scheduled_rows_[i])) starved = &conversation;
  }
  if (parts_.empty() && starved != nullptr) {
    ++counters_.out_of_pages;
    EndTurn(*starved, TurnEnd::kOutOfPages);
    return true;  // that freed nothing, but others may have work left
  }
  return !parts_.empty();
}

void Engine::ClearStep() {
  tokens_.clear();
  logit_rows_.clear();
  parts_.clear();
  part_owners_.clear();
  part_rereads_.clear();
}

// A step for the spans that nobody waits for yet, short, since somebody may come.
bool Engine::ScheduleAhead() {
  constexpr int64_t kAheadRows = 16;
  const size_t count = conversations_.size();
  for (size_t i = 0; i < count; ++i) {
    const size_t at = (ahead_turn_ + i) % count;
    Conversation& conversation = *conversations_[at];
    const Reread* reread = NextAhead(conversation);
    if (reread == nullptr) continue;
    ClearStep();
    const int64_t rows = std::min<int64_t>(
        {reread->pending(), kAheadRows, static_cast<int64_t>(workspace_.limits().rows)});
    if (AddPart(conversation, {}, static_cast<int>(rows))) {
      ahead_turn_ = at + (reread->pending() == rows ? 1 : 0);
      return true;
    }
    conversation.reading_ahead_.reset();
    conversation.ahead_.clear();  // there are no pages to spare
  }
  return false;
}

// The span of an idle conversation that is read ahead now.
Reread* Engine::NextAhead(Conversation& conversation) {
  const Window& window = conversation.window_;
  if (conversation.busy() || window.next().value < window.shape().anchors) return nullptr;
  while (!conversation.reading_ahead_ && !conversation.ahead_.empty()) {
    const LogRange span = conversation.ahead_.front();
    if (span.tokens() > 0 && span.to <= conversation.log_.end() &&
        !spans_.Has(conversation.span_name(), conversation.log_, span, window.shape().anchors)) {
      conversation.reading_ahead_.emplace(Reread{{.range = span}, window.AnchorsAlone()});
    } else {
      conversation.ahead_.pop_front();
    }
  }
  return conversation.pending_reread();
}

bool Engine::AddPart(Conversation& conversation, const WaitingWork& work, int row_count) {
  const auto first_row = static_cast<int>(tokens_.size());
  Reread* reread = conversation.pending_reread();
  Window& window = reread != nullptr ? reread->window : conversation.window_;
  const LogIndex first = reread != nullptr ? reread->next() : window.next();
  while (!window.Extend(row_count, std::span(places_).subspan(static_cast<size_t>(first_row)))) {
    // What is read ahead takes nothing from anybody.
    if (!conversation.busy() || !prefixes_.DropOldest()) return false;
  }
  for (int i = 0; i < row_count; ++i) {
    tokens_.push_back(conversation.log_.token(first + i));
    if (work.every_logit || (work.wants_logits && i + 1 == work.pending_rows)) {
      logit_rows_.push_back(first_row + i);
    }
  }
  parts_.push_back({window.View(), first_row, row_count});
  part_owners_.push_back(&conversation);
  part_rereads_.push_back(reread);
  return true;
}

void Engine::Forward() {
  if (parts_.empty()) return;
  ++counters_.steps;
  counters_.rows += std::ssize(tokens_);
  counters_.conversations += std::ssize(parts_);
  model_->Forward({.tokens = tokens_,
                   .places = std::span(places_).first(tokens_.size()),
                   .logit_rows = logit_rows_,
                   .parts = parts_},
                  rotary_, &workspace_);
}

void Engine::Deliver() {
  size_t logit_row = 0;
  for (size_t p = 0; p < parts_.size(); ++p) {
    Conversation& conversation = *part_owners_[p];
    if (Reread* reread = part_rereads_[p]) {
      reread->window.Commit();
      DeliverReread(conversation, *reread, parts_[p].row_count);
      continue;
    }
    Window& window = conversation.window_;
    window.Commit();
    counters_.evicted_tokens +=
        window.SeenFrom(window.next()) - window.SeenFrom(window.next() - parts_[p].row_count);
    conversation.turn_->stats.read_tokens += parts_[p].row_count;
    if (conversation.turn_->keeps_prefix && conversation.pending_rows() == 0) {
      conversation.turn_->keeps_prefix = false;
      prefixes_.Keep(conversation.turn_->request.shares_as, conversation.log_,
                     conversation.window_);
    }
    DeliverRows(conversation, parts_[p], &logit_row);
  }
}

void Engine::DeliverReread(Conversation& conversation, const Reread& reread, int row_count) {
  if (reread.pending() == 0) {
    spans_.Keep(conversation.span_name(), conversation.log_, reread.span.range, reread.window);
  }
  if (conversation.busy()) {
    conversation.turn_->stats.reread_tokens += row_count;
    counters_.reread_tokens += row_count;
    return;
  }
  counters_.ahead_tokens += row_count;
  if (reread.pending() > 0) return;
  conversation.reading_ahead_.reset();
  conversation.ahead_.pop_front();
}

void Engine::DeliverRows(Conversation& conversation, const StepPart& part, size_t* logit_row) {
  const LogIndex first = conversation.window_.next() - part.row_count;
  const int end = part.first_row + part.row_count;
  for (; *logit_row < logit_rows_.size() && logit_rows_[*logit_row] < end; ++*logit_row) {
    if (!conversation.busy()) continue;  // an earlier row ended the turn
    DeliverRow(conversation, first + (logit_rows_[*logit_row] - part.first_row),
               workspace_.logits(static_cast<int>(*logit_row)));
  }
  if (conversation.busy() && conversation.turn_->request.max_tokens == 0 &&
      conversation.pending_rows() == 0) {
    EndTurn(conversation, TurnEnd::kLength);
  }
}

void Engine::DeliverRow(Conversation& conversation, LogIndex index, std::span<const float> logits) {
  RunningTurn& turn = *conversation.turn_;
  if (!AllFinite(logits)) {
    spdlog::error("conversation {}: logits at token {} are not finite; the turn ends here",
                  conversation.id_, index.value);
    ++counters_.numeric_errors;
    EndTurn(conversation, TurnEnd::kNumericError);
    return;
  }
  turn.sink->OnLogits(index, logits);
  if (turn.request.max_tokens == 0 || index + 1 != conversation.log_.end()) return;
  TakeToken(conversation, SampleToken(logits, turn.request.sampler, RecentOf(conversation),
                                      index + 1, &sampler_scratch_));
}

RecentTokens Engine::RecentOf(const Conversation& conversation) {
  const TurnRequest& request = conversation.turn_->request;
  const std::span all(recent_);
  const std::span written(written_);
  RecentTokens recent;
  recent.all = all.first(
      conversation.log_.CopyLast(all.first(static_cast<size_t>(request.sampler.penalty_window))));
  if (request.sampler.dry_multiplier != 0) {
    const auto own = written.first(conversation.log_.CopyLastGenerated(written));
    // Every answer may end, after whatever words.
    for (const TokenId end : request.end_tokens) std::ranges::replace(own, end, kNoToken);
    // What was called back is there to be quoted.
    const LogIndex first = conversation.log_.end() - std::ssize(own);
    for (const RecalledSpan& span : conversation.window_.Facts().recalled) {
      for (LogIndex at = std::max(span.range.from, first); at < span.range.to; at = at + 1) {
        own[static_cast<size_t>(at - first)] = kNoToken;
      }
    }
    recent.written = own;
  }
  return recent;
}

void Engine::TakeToken(Conversation& conversation, const SampledToken& sampled) {
  RunningTurn& turn = *conversation.turn_;
  if (turn.stats.generated_tokens == 0) {
    turn.first_token_seconds = MonotonicSeconds();
  } else {
    --turn.stats.read_tokens;  // the row that made this token was itself generated
  }
  ++turn.stats.generated_tokens;
  conversation.log_.Append(sampled.token, true);
  turn.sink->OnToken(sampled);
  if (std::ranges::find(turn.request.end_tokens, sampled.token) != turn.request.end_tokens.end()) {
    EndTurn(conversation, TurnEnd::kStop);
    return;
  }
  turn.token_starts[static_cast<size_t>(turn.stats.generated_tokens) % kRewindSlots] =
      turn.text_bytes + static_cast<int64_t>(turn.detokenizer.held_bytes());
  const std::string text = turn.detokenizer.Push(sampled.token);
  turn.text_bytes += static_cast<int64_t>(text.size());
  const std::string shown = turn.stop.Push(text);
  turn.shown_bytes += static_cast<int64_t>(shown.size());
  if (!shown.empty()) turn.sink->OnText(shown);
  if (turn.stop.matched()) {
    RewindStopString(conversation);
    EndTurn(conversation, TurnEnd::kStopString);
  } else if (turn.stats.generated_tokens >= turn.request.max_tokens) {
    EndTurn(conversation, TurnEnd::kLength);
  }
}

void Engine::RewindStopString(Conversation& conversation) {
  // Tokens that begin at or behind the cut go. A stop string longer than kRewindSlots tokens leaves
  // its first ones in the log.
  const RunningTurn& turn = *conversation.turn_;
  const int64_t reach = std::min<int64_t>(turn.stats.generated_tokens, kRewindSlots);
  int count = 0;
  while (
      count < reach &&
      turn.token_starts[static_cast<size_t>(turn.stats.generated_tokens - count) % kRewindSlots] >=
          turn.shown_bytes) {
    ++count;
  }
  if (count == 0) return;
  conversation.log_.Rewind(count);
  conversation.window_.Rewind(count - 1);  // the newest of them was never read
}

void Engine::EndTurn(Conversation& conversation, TurnEnd end) {
  RunningTurn turn = std::move(*conversation.turn_);
  conversation.turn_.reset();
  if (end != TurnEnd::kStopString) {
    std::string rest = turn.stop.Push(turn.detokenizer.Flush());
    rest += turn.stop.Flush();
    if (!rest.empty()) turn.sink->OnText(rest);
  }
  // What was to be read and was not is taken back: the log holds what the model has seen, and the
  // one token it may have said since.
  while (conversation.pending_rows() > 1 ||
         (conversation.pending_rows() == 1 &&
          !conversation.log_.generated(conversation.log_.end() - 1))) {
    conversation.log_.Rewind(1);
  }
  conversation.journal_.resize(conversation.repeated_);  // messages that went with the log
  const double now = MonotonicSeconds();
  if (turn.stats.generated_tokens == 0) turn.first_token_seconds = now;
  turn.stats.read_seconds = turn.first_token_seconds - turn.started_seconds;
  turn.stats.generate_seconds = now - turn.first_token_seconds;
  turn.sink->OnEnd(end, turn.stats);
}

}  // namespace mooring
