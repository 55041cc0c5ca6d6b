// Turns in the store: how one begins and ends, and what is read of them.
#include <fmt/format.h>

#include <algorithm>
#include <map>
#include <span>

#include "talk/conversation_names.h"
#include "talk/store_tables.h"

namespace mooring {
namespace {

constexpr int64_t kReplyLifeMs = int64_t{24} * 60 * 60 * 1000;
constexpr size_t kMaxRoleBytes = 64;
constexpr int64_t kMaxCandidates = 64;

Status CheckStart(const TurnStart& start) {
  if (start.messages.empty() && !start.system && !start.answer) {
    return Error{.kind = ErrorKind::kUsage,
                 .what = "this turn has nothing in it",
                 .expected = "new messages, new instructions or an answer to await"};
  }
  for (const NewMessage& message : start.messages) {
    if (!message.role.empty() && message.role.size() <= kMaxRoleBytes) continue;
    return Error{.kind = ErrorKind::kUsage,
                 .what = "this cannot be the role of a message",
                 .expected = fmt::format("1 to {} bytes", kMaxRoleBytes),
                 .found = fmt::format("{} bytes", message.role.size())};
  }
  return {};
}

// The same for a key that is too old as for one that never was.
Result<std::optional<EarlierReply>> ReadReply(Store::Tables* tables, RowId owner,
                                              std::string_view key) {
  SqliteQuery query = tables->database().Query(
      "SELECT c.id, m.id, m.state, r.digest, r.reply FROM replies r"
      " JOIN messages m ON m.row = r.message JOIN conversations c ON c.row = m.conversation"
      " WHERE r.owner = ? AND r.key = ? AND r.created > ?");
  query.Bind(owner).Bind(key).Bind(tables->Now() - kReplyLifeMs);
  MOORING_ASSIGN_OR_RETURN(const bool row, query.Step());
  if (!row) return std::optional<EarlierReply>();
  return std::optional(EarlierReply{.conversation = query.Bytes(0),
                                    .answer = query.Bytes(1),
                                    .state = static_cast<MessageState>(query.Int(2)),
                                    .request_digest = query.Bytes(3),
                                    .reply = query.Bytes(4)});
}

// Forgets replies that are a day old, and notes which answer belongs to a new key.
Status NoteReply(Store::Tables* tables, RowId owner, RowId answer, const TurnStart& start) {
  const int64_t now = tables->Now();
  MOORING_RETURN_IF_ERROR(tables->database()
                              .Query("DELETE FROM replies WHERE created <= ?")
                              .Bind(now - kReplyLifeMs)
                              .Run());
  return tables->database()
      .Query(
          "INSERT INTO replies (owner, key, message, digest, reply, created)"
          " VALUES (?, ?, ?, ?, x'', ?)")
      .Bind(owner)
      .Bind(start.idempotency_key)
      .Bind(answer)
      .Bind(start.request_digest)
      .Bind(now)
      .Run();
}

// Appends what is said and awaited; fills in the ids.
Status AppendTurn(Store::Tables* tables, Store::Tables::Place* place, Store::Tables::PathEnd* end,
                  const TurnStart& start, AcceptedTurn* turn) {
  const int64_t now = tables->Now();
  const auto append = [&](StoredMessage message) -> Result<std::string> {
    MOORING_ASSIGN_OR_RETURN(message.id, MakeId(kMessagePrefix));
    message.created_ms = now;
    MOORING_RETURN_IF_ERROR(tables->Append(place, end, message));
    return std::move(message.id);
  };
  if (start.system) {
    MOORING_ASSIGN_OR_RETURN(turn->instructions, append({.role = "system", .text = *start.system}));
  }
  for (const auto& [role, text] : start.messages) {
    MOORING_ASSIGN_OR_RETURN(turn->messages.emplace_back(), append({.role = role, .text = text}));
  }
  if (!start.answer) return {};
  MOORING_ASSIGN_OR_RETURN(turn->answer, append({.role = "assistant",
                                                 .state = MessageState::kInProgress,
                                                 .response_id = start.response_id,
                                                 .sampling = start.sampling,
                                                 .seed = start.seed}));
  return {};
}

// The rows of the turn that ends with `answer`, in order.
Result<std::vector<std::pair<RowId, std::string>>> TurnRows(Store::Tables* tables, RowId answer,
                                                            RowId start) {
  std::vector<std::pair<RowId, std::string>> rows;
  for (std::optional<RowId> next = answer; next && *next >= start;) {
    SqliteQuery query = tables->database().Query("SELECT id, parent FROM messages WHERE row = ?");
    MOORING_ASSIGN_OR_RETURN(const bool row, query.Bind(*next).Step());
    if (!row) return DamagedStore("a message whose parent is missing");
    rows.emplace_back(*next, query.Bytes(0));
    next = query.OptionalInt(1);
  }
  std::reverse(rows.begin(), rows.end());
  return rows;
}

// Places the tokens of the turn in the log, the answer's last, and each event with the message that
// begins there: an answer that is asked for again shares it.
Status PlaceTokens(Store::Tables* tables, RowId answer, RowId start, LogIndex place,
                   const TurnFinish& finish) {
  std::map<std::string_view, const LogTokens*> read;
  for (const ReadTokens& tokens : finish.read) read[tokens.message] = &tokens.tokens;
  read[finish.answer] = &finish.tokens;
  std::span<const MemoryEvent> events = finish.events;
  MOORING_ASSIGN_OR_RETURN(const auto rows, TurnRows(tables, answer, start));
  for (const auto& [row, id] : rows) {
    const auto it = read.find(id);
    const LogIndex from = place;
    if (it != read.end()) {
      MOORING_RETURN_IF_ERROR(tables->AddTokens(row, *it->second));
      place = place + static_cast<int64_t>(it->second->ids.size());
      read.erase(it);
      const auto later = std::ranges::find_if(
          events, [place](const MemoryEvent& event) { return event.at >= place; });
      const auto count = static_cast<size_t>(later - events.begin());
      MOORING_RETURN_IF_ERROR(tables->AddEvents(row, events.first(count)));
      events = events.subspan(count);
    }
    MOORING_RETURN_IF_ERROR(tables->database()
                                .Query("UPDATE messages SET log_from = ?, log_to = ? WHERE row = ?")
                                .Bind(from.value)
                                .Bind(place.value)
                                .Bind(row)
                                .Run());
  }
  if (!events.empty()) {
    return Error{.kind = ErrorKind::kUsage,
                 .what = "an event of memory is not of this turn",
                 .found = fmt::format("token {}", events.front().at.value)};
  }
  if (read.empty()) return {};
  return Error{.kind = ErrorKind::kUsage,
               .what = "tokens were read for a message that is not of this turn",
               .found = std::string(read.begin()->first)};
}

Status KeepAnswer(Store::Tables* tables, std::string_view owner, RowId answer,
                  const TurnFinish& finish) {
  const MessageHash hash = HashMessage("assistant", finish.text);
  const bool takes_part = TakesPart("assistant", finish.text);
  MOORING_ASSIGN_OR_RETURN(const Store::Tables::PathEnd end, tables->End(answer));
  const std::string pair = takes_part && end.last_hash
                               ? std::string(BytesOf(HashPair(owner, *end.last_hash, hash)))
                               : "";
  const MessageState state = finish.complete ? MessageState::kComplete : MessageState::kIncomplete;
  return tables->database()
      .Query(
          "UPDATE messages SET text = ?, state = ?, finish_reason = ?, hash = ?,"
          " pair = nullif(?, x''), last_part = ? WHERE row = ?")
      .Bind(finish.text)
      .Bind(static_cast<int64_t>(state))
      .Bind(finish.finish_reason)
      .Bind(BytesOf(hash))
      .Bind(pair)
      .Bind(takes_part ? std::optional(answer) : end.last_part)
      .Bind(answer)
      .Run();
}

}  // namespace

Result<Acceptance> Store::Accept(ConversationKey key, const TurnStart& start) {
  return tables_->Write([&]() -> Result<Acceptance> {
    MOORING_RETURN_IF_ERROR(CheckStart(start));
    MOORING_ASSIGN_OR_RETURN(Tables::ConversationRow conversation, tables_->Conversation(key));
    Acceptance acceptance;
    if (!start.idempotency_key.empty()) {
      MOORING_ASSIGN_OR_RETURN(acceptance.earlier,
                               ReadReply(tables_.get(), conversation.owner, start.idempotency_key));
      if (acceptance.earlier) {
        acceptance.kind = AcceptKind::kRepeated;
        return acceptance;
      }
    }
    MOORING_ASSIGN_OR_RETURN(const bool busy, tables_->IsBusy(conversation.row));
    if (busy) {
      acceptance.kind = AcceptKind::kBusy;
      return acceptance;
    }
    MOORING_ASSIGN_OR_RETURN(std::optional<RowId> tip,
                             tables_->Tip(conversation.row, std::nullopt));
    MOORING_ASSIGN_OR_RETURN(Tables::PathEnd end, tables_->End(tip));
    acceptance.turns = end.turn;
    if (start.if_turn && *start.if_turn != end.turn) {
      acceptance.kind = AcceptKind::kChanged;
      return acceptance;
    }
    AcceptedTurn& turn = acceptance.turn;
    if (start.after) {
      MOORING_ASSIGN_OR_RETURN(tip, tables_->OptionalMessageRow(conversation.row, *start.after));
      MOORING_ASSIGN_OR_RETURN(conversation.head,
                               tables_->MakeHeadAt(conversation, tip, &turn.forked));
      MOORING_ASSIGN_OR_RETURN(end, tables_->End(tip));
    }
    turn.branch = conversation.head;
    turn.log_from = end.log_end;
    Tables::Place place{
        .owner = key.owner, .conversation = conversation.row, .branch = conversation.head};
    MOORING_RETURN_IF_ERROR(AppendTurn(tables_.get(), &place, &end, start, &turn));
    turn.turn = end.turn;
    MOORING_RETURN_IF_ERROR(tables_->MoveTip(conversation.head, end.row));
    if (start.answer && !start.idempotency_key.empty()) {
      MOORING_RETURN_IF_ERROR(NoteReply(tables_.get(), conversation.owner, *end.row, start));
    }
    MOORING_RETURN_IF_ERROR(tables_->Touch(conversation.row));
    return acceptance;
  });
}

Status Store::Finish(ConversationKey key, const TurnFinish& finish) {
  return tables_->Write([&]() -> Status {
    MOORING_ASSIGN_OR_RETURN(const Tables::ConversationRow conversation,
                             tables_->Conversation(key));
    RowId answer = 0, start = 0;
    {
      SqliteQuery query = tables_->database().Query(
          "SELECT row, turn_start FROM messages WHERE conversation = ? AND id = ? AND state = 0");
      query.Bind(conversation.row).Bind(finish.answer);
      MOORING_ASSIGN_OR_RETURN(const bool row, query.Step());
      if (!row) return UnknownMessage();
      answer = query.Int(0);
      start = query.Int(1);
    }
    MOORING_ASSIGN_OR_RETURN(const Tables::PathEnd end, tables_->End(answer));
    MOORING_RETURN_IF_ERROR(PlaceTokens(tables_.get(), answer, start, end.log_end, finish));
    MOORING_RETURN_IF_ERROR(KeepAnswer(tables_.get(), key.owner, answer, finish));
    MOORING_RETURN_IF_ERROR(tables_->database()
                                .Query("UPDATE replies SET reply = ? WHERE message = ?")
                                .Bind(finish.reply)
                                .Bind(answer)
                                .Run());
    return tables_->Touch(conversation.row);
  });
}

Result<std::optional<EarlierReply>> Store::FindReply(std::string_view owner,
                                                     std::string_view idempotency_key) {
  return tables_->Read([&]() -> Result<std::optional<EarlierReply>> {
    MOORING_ASSIGN_OR_RETURN(const std::optional<RowId> owner_row, tables_->FindOwner(owner));
    if (!owner_row) return std::optional<EarlierReply>();
    return ReadReply(tables_.get(), *owner_row, idempotency_key);
  });
}

Result<std::vector<StoredMessage>> Store::LoadChain(ConversationKey key,
                                                    const ChainOptions& options) {
  return tables_->Read([&]() -> Result<std::vector<StoredMessage>> {
    MOORING_ASSIGN_OR_RETURN(const Tables::ConversationRow conversation,
                             tables_->Conversation(key));
    MOORING_ASSIGN_OR_RETURN(const std::optional<RowId> tip,
                             tables_->Tip(conversation.row, options.branch));
    MOORING_ASSIGN_OR_RETURN(const std::vector<RowId> rows, tables_->Path(tip));
    std::vector<StoredMessage> chain;
    chain.reserve(rows.size());
    for (const RowId row : rows) {
      MOORING_ASSIGN_OR_RETURN(chain.emplace_back(), tables_->Message(row, options.tokens));
    }
    return chain;
  });
}

Result<StoredMessage> Store::FindMessage(ConversationKey key, std::string_view message) {
  return tables_->Read([&]() -> Result<StoredMessage> {
    MOORING_ASSIGN_OR_RETURN(const Tables::ConversationRow conversation,
                             tables_->Conversation(key));
    MOORING_ASSIGN_OR_RETURN(const RowId row, tables_->MessageRow(conversation.row, message));
    return tables_->Message(row, /*with_tokens=*/true);
  });
}

Result<StoredMessage> Store::MessageAt(ConversationKey key, LogIndex index) {
  return tables_->Read([&]() -> Result<StoredMessage> {
    MOORING_ASSIGN_OR_RETURN(const Tables::ConversationRow conversation,
                             tables_->Conversation(key));
    SqliteQuery query = tables_->database().Query(
        "SELECT row FROM messages WHERE conversation = ? AND log_from <= ? AND log_to > ?"
        " ORDER BY log_from DESC LIMIT (SELECT CASE count(*) WHEN 1 THEN 1 ELSE -1 END"
        " FROM branches WHERE conversation = ?)");
    query.Bind(conversation.row).Bind(index.value).Bind(index.value).Bind(conversation.row);
    std::vector<RowId> rows;
    for (;;) {
      MOORING_ASSIGN_OR_RETURN(const bool row, query.Step());
      if (!row) break;
      rows.push_back(query.Int(0));
    }
    // Of several, each is on another branch.
    if (rows.size() > 1) {
      MOORING_ASSIGN_OR_RETURN(const std::optional<RowId> tip,
                               tables_->Tip(conversation.row, std::nullopt));
      MOORING_ASSIGN_OR_RETURN(const std::vector<RowId> path, tables_->Path(tip));
      std::erase_if(rows, [&path](RowId row) { return !std::ranges::binary_search(path, row); });
    }
    if (rows.empty()) return UnknownMessage();
    return tables_->Message(rows.front(), /*with_tokens=*/false);
  });
}

Result<MessagePlace> Store::FindResponse(std::string_view owner, std::string_view response_id) {
  return tables_->Read([&]() -> Result<MessagePlace> {
    SqliteQuery query = tables_->database().Query(
        "SELECT c.id, m.id FROM messages m JOIN conversations c ON c.row = m.conversation"
        " JOIN owners o ON o.row = c.owner WHERE m.response = ? AND o.owner = ?"
        " ORDER BY m.row DESC LIMIT 1");
    MOORING_ASSIGN_OR_RETURN(const bool row, query.Bind(response_id).Bind(owner).Step());
    if (!row) return Error{.kind = ErrorKind::kNotFound, .what = "there is no such response"};
    return MessagePlace{.conversation = query.Bytes(0), .message = query.Bytes(1)};
  });
}

Result<std::vector<MemoryEvent>> Store::LoadEvents(ConversationKey key,
                                                   std::optional<BranchId> branch, LogIndex from) {
  return tables_->Read([&]() -> Result<std::vector<MemoryEvent>> {
    MOORING_ASSIGN_OR_RETURN(const Tables::ConversationRow conversation,
                             tables_->Conversation(key));
    MOORING_ASSIGN_OR_RETURN(const std::optional<RowId> tip,
                             tables_->Tip(conversation.row, branch));
    MOORING_ASSIGN_OR_RETURN(const std::vector<RowId> rows, tables_->Path(tip));
    std::vector<MemoryEvent> events;
    for (const RowId row : rows) MOORING_RETURN_IF_ERROR(tables_->Events(row, from, &events));
    return events;
  });
}

Result<std::vector<MatchCandidate>> Store::FindCandidates(std::string_view owner,
                                                          const HistoryPair& pair) {
  return tables_->Read([&]() -> Result<std::vector<MatchCandidate>> {
    const MessageHash hash = HashPair(owner, pair.previous, pair.last);
    SqliteQuery query = tables_->database().Query(
        "SELECT c.id, m.branch, m.id FROM messages m JOIN conversations c ON c.row = m.conversation"
        " JOIN owners o ON o.row = c.owner WHERE m.pair = ? AND o.owner = ?"
        " ORDER BY m.row DESC LIMIT ?");
    query.Bind(BytesOf(hash)).Bind(owner).Bind(kMaxCandidates);
    std::vector<MatchCandidate> candidates;
    for (;;) {
      MOORING_ASSIGN_OR_RETURN(const bool row, query.Step());
      if (!row) return candidates;
      candidates.push_back(MatchCandidate{
          .conversation = query.Bytes(0), .branch = query.Int(1), .message = query.Bytes(2)});
    }
  });
}

}  // namespace mooring
