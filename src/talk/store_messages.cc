// The look-ups of the store that are about single messages and the ways to them.
#include <fmt/format.h>

#include <algorithm>

#include "talk/store_tables.h"
#include "talk/token_bytes.h"

namespace mooring {

Result<RowId> Store::Tables::MessageRow(RowId conversation, std::string_view id) {
  SqliteQuery query = database_.Query("SELECT row FROM messages WHERE conversation = ? AND id = ?");
  MOORING_ASSIGN_OR_RETURN(const bool row, query.Bind(conversation).Bind(id).Step());
  if (!row) return UnknownMessage();
  return query.Int(0);
}

Result<std::optional<RowId>> Store::Tables::OptionalMessageRow(RowId conversation,
                                                               std::string_view id) {
  if (id.empty()) return std::optional<RowId>();
  MOORING_ASSIGN_OR_RETURN(const RowId row, MessageRow(conversation, id));
  return std::optional(row);
}

Result<StoredMessage> Store::Tables::Message(RowId message, bool with_tokens) {
  SqliteQuery query = database_.Query(
      "SELECT id, role, text, state, forgotten, hash, turn, log_from, log_to, created, response,"
      " finish_reason, sampling, seed FROM messages WHERE row = ?");
  MOORING_ASSIGN_OR_RETURN(const bool row, query.Bind(message).Step());
  if (!row) return DamagedStore("a message that is missing");
  StoredMessage read;
  read.id = query.Bytes(0);
  read.role = query.Bytes(1);
  read.text = query.Bytes(2);
  if (query.Int(3) < 0 || query.Int(3) > static_cast<int64_t>(MessageState::kIncomplete)) {
    return DamagedStore("a message in no known state");
  }
  read.state = static_cast<MessageState>(query.Int(3));
  read.forgotten = query.Int(4) != 0;
  read.hash = HashFromBytes(query.Bytes(5));
  read.turn = query.Int(6);
  read.from = {query.Int(7)};
  read.to = {query.Int(8)};
  read.created_ms = query.Int(9);
  read.response_id = query.Bytes(10);
  read.finish_reason = query.Bytes(11);
  read.sampling = query.Bytes(12);
  if (const auto seed = query.OptionalInt(13)) read.seed = static_cast<uint64_t>(*seed);
  if (!with_tokens || read.forgotten || read.from == read.to) return read;
  SqliteQuery tokens = database_.Query("SELECT tokens FROM tokens WHERE message = ?");
  MOORING_ASSIGN_OR_RETURN(const bool has_tokens, tokens.Bind(message).Step());
  if (!has_tokens) return DamagedStore("a message without its tokens");
  MOORING_ASSIGN_OR_RETURN(read.tokens, ReadTokenBytes(tokens.Bytes(0)));
  if (static_cast<int64_t>(read.tokens.ids.size()) != read.to - read.from) {
    return DamagedStore("a message with another number of tokens");
  }
  return read;
}

Result<std::vector<RowId>> Store::Tables::Path(std::optional<RowId> tip) {
  std::vector<RowId> rows;
  while (tip) {
    rows.push_back(*tip);
    SqliteQuery query = database_.Query("SELECT parent FROM messages WHERE row = ?");
    MOORING_ASSIGN_OR_RETURN(const bool row, query.Bind(*tip).Step());
    if (!row) return DamagedStore("a message whose parent is missing");
    const std::optional<RowId> parent = query.OptionalInt(0);
    if (parent && *parent >= *tip) return DamagedStore("a message that is older than its parent");
    tip = parent;
  }
  std::reverse(rows.begin(), rows.end());
  return rows;
}

Result<Store::Tables::PathEnd> Store::Tables::End(std::optional<RowId> message) {
  PathEnd end;
  if (!message) return end;
  SqliteQuery query = database_.Query(
      "SELECT m.depth, m.turn, m.log_to, m.instructions, m.last_part, p.hash FROM messages m"
      " LEFT JOIN messages p ON p.row = m.last_part WHERE m.row = ?");
  MOORING_ASSIGN_OR_RETURN(const bool row, query.Bind(*message).Step());
  if (!row) return DamagedStore("a message that is missing");
  end.row = message;
  end.depth = query.Int(0);
  end.turn = query.Int(1);
  end.log_end = {query.Int(2)};
  end.instructions = query.OptionalInt(3);
  end.last_part = query.OptionalInt(4);
  if (!query.IsNull(5)) end.last_hash = HashFromBytes(query.Bytes(5));
  return end;
}

Result<std::optional<RowId>> Store::Tables::Tip(RowId conversation,
                                                std::optional<BranchId> branch) {
  SqliteQuery query = database_.Query(
      "SELECT b.tip FROM conversations c JOIN branches b"
      " ON b.conversation = c.row AND b.row = coalesce(?, c.head) WHERE c.row = ?");
  MOORING_ASSIGN_OR_RETURN(const bool row, query.Bind(branch).Bind(conversation).Step());
  if (row) return query.OptionalInt(0);
  if (!branch) return DamagedStore("a conversation without a head");
  return Error{.kind = ErrorKind::kNotFound,
               .what = "there is no such branch in this conversation"};
}

Status Store::Tables::Append(Place* place, PathEnd* end, const StoredMessage& message) {
  const MessageHash hash =
      message.forgotten ? message.hash : HashMessage(message.role, message.text);
  const bool takes_part = TakesPart(
      {.role = message.role, .text = message.text, .hash = hash, .forgotten = message.forgotten});
  const int64_t turn = end->turn + (message.role == "user" ? 1 : 0);
  RowId row = 0;
  {
    const std::string pair =
        takes_part && end->last_hash
            ? std::string(BytesOf(HashPair(place->owner, *end->last_hash, hash)))
            : "";
    SqliteQuery query = database_.Query(
        "INSERT INTO messages (conversation, parent, branch, turn_start, depth, turn, log_from,"
        " log_to, id, role, text, state, forgotten, hash, pair, response, finish_reason, sampling,"
        " seed, created) VALUES (?, ?, ?, 0, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?)");
    query.Bind(place->conversation).Bind(end->row).Bind(place->branch).Bind(end->depth + 1);
    query.Bind(turn).Bind(end->log_end.value).Bind(end->log_end.value);
    query.Bind(message.id).Bind(message.role).Bind(message.text);
    query.Bind(static_cast<int64_t>(message.state)).Bind(int64_t{message.forgotten});
    query.Bind(BytesOf(hash));
    if (pair.empty()) {
      query.BindNull();
    } else {
      query.Bind(pair);
    }
    if (message.response_id.empty()) {
      query.BindNull();
    } else {
      query.Bind(message.response_id);
    }
    query.Bind(message.finish_reason).Bind(message.sampling);
    if (message.seed) {
      query.Bind(static_cast<int64_t>(*message.seed));
    } else {
      query.BindNull();
    }
    MOORING_RETURN_IF_ERROR(query.Bind(message.created_ms).Run());
    row = database_.last_row();
  }
  end->row = row;
  ++end->depth;
  end->turn = turn;
  if (IsInstruction(message.role)) end->instructions = row;
  if (takes_part) {
    end->last_part = row;
    end->last_hash = hash;
  }
  if (!place->turn_start) place->turn_start = row;
  return database_
      .Query("UPDATE messages SET instructions = ?, last_part = ?, turn_start = ? WHERE row = ?")
      .Bind(end->instructions)
      .Bind(end->last_part)
      .Bind(*place->turn_start)
      .Bind(row)
      .Run();
}

Status Store::Tables::AddTokens(RowId message, const LogTokens& tokens) {
  MOORING_RETURN_IF_ERROR(CheckTokens(tokens));
  if (tokens.ids.empty()) return {};
  const std::string bytes = TokenBytes(tokens);
  return database_.Query("INSERT INTO tokens (message, tokens) VALUES (?, ?)")
      .Bind(message)
      .Bind(bytes)
      .Run();
}

Status Store::Tables::AddEvents(RowId message, std::span<const MemoryEvent> events) {
  for (const MemoryEvent& event : events) {
    MOORING_RETURN_IF_ERROR(
        database_.Query("INSERT INTO events (message, place, bytes) VALUES (?, ?, ?)")
            .Bind(message)
            .Bind(event.at.value)
            .Bind(event.bytes)
            .Run());
  }
  return {};
}

Status Store::Tables::Events(RowId message, LogIndex from, std::vector<MemoryEvent>* events) {
  SqliteQuery query = database_.Query(
      "SELECT place, bytes FROM events WHERE message = ? AND place >= ? ORDER BY row");
  query.Bind(message).Bind(from.value);
  for (;;) {
    MOORING_ASSIGN_OR_RETURN(const bool row, query.Step());
    if (!row) return {};
    events->push_back({.at = {query.Int(0)}, .bytes = query.Bytes(1)});
  }
}

Status Store::Tables::MoveTip(RowId branch, std::optional<RowId> tip) {
  return database_.Query("UPDATE branches SET tip = ? WHERE row = ?").Bind(tip).Bind(branch).Run();
}

}  // namespace mooring
