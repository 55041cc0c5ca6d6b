// The host on the store's thread: which conversation a turn means, and what was said there before.

#include <fmt/format.h>

#include <utility>

#include "base/log.h"
#include "talk/host.h"
#include "talk/host_turn.h"
#include "talk/memory_events.h"
#include "talk/recognise.h"
#include "talk/spelling.h"

namespace mooring {
namespace {

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

}  // namespace

Refused Refuse(const Error& error) { return std::pair(RefusalOf(error), error); }

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

// What memory did before the turn, and the index of what was said.
Status Host::LoadMemory(Store& store, Turn& turn, std::vector<MessageRange> said) const {
  MOORING_ASSIGN_OR_RETURN(
      const std::vector<MemoryEvent> events,
      store.LoadEvents({turn.order.owner, turn.accepted.conversation}, std::nullopt, {0}));
  MOORING_ASSIGN_OR_RETURN(MemoryNotes notes, NotesOf(events));
  std::erase_if(notes.journal,
                [&turn](const JournalEntry& entry) { return entry.message >= turn.log_from; });
  turn.journal = std::move(notes.journal);
  turn.memory = NewMemory();
  if (!turn.memory) return {};
  // The last round may go on.
  const auto last = std::ranges::find(said.rbegin(), said.rend(), "user", &MessageRange::role);
  const auto open = last == said.rend() ? said.begin() : last.base() - 1;
  // An answer that was asked for once more has kept some twice.
  std::ranges::stable_sort(notes.vectors, {}, [](const SpanVector& one) { return one.range.from; });
  turn.memory->IndexAgain(turn.log, {said.begin(), open}, notes.vectors);
  turn.memory->said.assign(open, said.end());
  return {};
}

// All that was said before the turn. Messages behind the last that has tokens are still to be read.
Status Host::LoadLog(Store& store, Turn& turn) {
  MOORING_ASSIGN_OR_RETURN(const std::vector<StoredMessage> chain,
                           store.LoadChain({turn.order.owner, turn.accepted.conversation},
                                           {.branch = {}, .tokens = true}));
  std::vector<MessageRange> said;
  for (const StoredMessage& message : chain) {
    if (turn.tip.empty()) break;
    const bool spoken = !message.tokens.ids.empty();
    for (size_t i = 0; i < message.tokens.ids.size(); ++i) {
      turn.log.Append(message.tokens.ids[i], message.tokens.generated[i]);
    }
    if (spoken) {
      // Instructions have no tokens of their own: they were read with what came behind them, and
      // neighbours of one role with the last of them.
      std::string text;
      bool joined = false;
      for (const ChatMessage& earlier : turn.unread) {
        if (earlier.role == "system") turn.place.system = earlier.content;
        if (earlier.role != message.role) continue;
        text = joined ? JoinTexts(std::move(text), earlier.content) : earlier.content;
        joined = true;
      }
      text = joined ? JoinTexts(std::move(text), message.text) : message.text;
      const LogRange all = {message.from, message.to};
      const auto words = FindSpelled(turn.log, engine_->tokenizer(), all, text);
      said.push_back({KnownRole(message.role), all, words.value_or(LogRange{all.from, all.from})});
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
  if (turn.log.end() != turn.log_from) {
    return Error{.kind = ErrorKind::kFailed,
                 .what = "the tokens of the conversation are not all there",
                 .where = turn.accepted.conversation,
                 .expected = fmt::format("{}", turn.log_from.value),
                 .found = fmt::format("{}", turn.log.end().value)};
  }
  MOORING_RETURN_IF_ERROR(LoadMemory(store, turn, std::move(said)));
  if (!snapshots_) return {};
  auto snapshot = snapshots_->Load(turn.accepted.conversation);
  if (snapshot.ok()) {
    turn.snapshot = std::move(*snapshot).value_or("");
  } else {
    spdlog::warn("keys and values that were kept cannot be used, and the log is read again: {}",
                 snapshot.error().Message());
  }
  return {};
}

}  // namespace mooring
