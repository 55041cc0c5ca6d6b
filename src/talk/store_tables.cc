#include "talk/store_tables.h"

#include <fmt/format.h>

#include <algorithm>

#include "talk/conversation_names.h"
#include "talk/token_bytes.h"

namespace mooring {
namespace {

constexpr size_t kMaxOwnerBytes = 256;

Status CheckOwner(std::string_view owner) {
  if (!owner.empty() && owner.size() <= kMaxOwnerBytes) return {};
  return Error{.kind = ErrorKind::kUsage,
               .what = "this cannot be an owner",
               .expected = fmt::format("1 to {} bytes", kMaxOwnerBytes),
               .found = fmt::format("{} bytes", owner.size())};
}

}  // namespace

Error UnknownConversation() {
  return Error{.kind = ErrorKind::kNotFound, .what = "there is no such conversation"};
}

Error UnknownMessage() {
  return Error{.kind = ErrorKind::kNotFound,
               .what = "there is no such message in this conversation"};
}

Error DamagedStore(std::string what) {
  return Error{.kind = ErrorKind::kModelInvalid,
               .what = "the store of conversations is damaged",
               .found = std::move(what),
               .remedy = "keep the file aside and put back a backup of it"};
}

MessageHash HashFromBytes(std::string_view bytes) {
  MessageHash hash;
  std::copy_n(bytes.begin(), std::min(bytes.size(), hash.bytes.size()), hash.bytes.begin());
  return hash;
}

std::string_view BytesOf(const MessageHash& hash) {
  return {reinterpret_cast<const char*>(hash.bytes.data()), hash.bytes.size()};
}

Status Store::Tables::Group(FunctionRef<void()> calls) {
  const std::lock_guard<std::recursive_mutex> guard(mutex_);
  CHECK(!in_group_, "groups do not nest");
  {
    MOORING_ASSIGN_OR_RETURN(SqliteTransaction transaction, SqliteTransaction::Begin(&database_));
    in_group_ = true;
    calls();
    in_group_ = false;
    if (group_error_) return *std::exchange(group_error_, std::nullopt);
    MOORING_RETURN_IF_ERROR(transaction.Commit());
  }
  return Scrub();
}

// Its bytes are zeros in the file once the log is written back, and the log is cut to nothing.
Status Store::Tables::Scrub() {
  const bool for_caller = std::exchange(scrub_for_caller_, false);
  if (!scrub_) return {};
  SqliteQuery query = database_.Query("PRAGMA wal_checkpoint(TRUNCATE)");
  const Result<bool> row = query.Step();
  scrub_ = !row.ok() || query.Int(0) != 0;
  if (!scrub_ || !for_caller) return {};
  if (!row.ok()) return row.error();
  return Error{.what = "deleted text is not overwritten yet",
               .where = file_.string(),
               .found = "a log that is in use"};
}

Result<std::optional<RowId>> Store::Tables::FindOwner(std::string_view owner) {
  SqliteQuery query = database_.Query("SELECT row FROM owners WHERE owner = ?");
  MOORING_ASSIGN_OR_RETURN(const bool row, query.Bind(owner).Step());
  return row ? query.OptionalInt(0) : std::nullopt;
}

Result<RowId> Store::Tables::OwnerRow(std::string_view owner) {
  MOORING_RETURN_IF_ERROR(CheckOwner(owner));
  MOORING_ASSIGN_OR_RETURN(const std::optional<RowId> known, FindOwner(owner));
  if (known) return *known;
  SqliteQuery query = database_.Query("INSERT INTO owners (owner) VALUES (?)");
  MOORING_RETURN_IF_ERROR(query.Bind(owner).Run());
  return database_.last_row();
}

Result<Store::Tables::ConversationRow> Store::Tables::Conversation(ConversationKey key) {
  SqliteQuery query = database_.Query(
      "SELECT c.row, c.owner, c.head FROM conversations c JOIN owners o ON o.row = c.owner"
      " WHERE c.id = ? AND o.owner = ?");
  MOORING_ASSIGN_OR_RETURN(const bool row, query.Bind(key.id).Bind(key.owner).Step());
  if (!row) return UnknownConversation();
  return ConversationRow{.row = query.Int(0), .owner = query.Int(1), .head = query.Int(2)};
}

Result<ConversationInfo> Store::Tables::Info(RowId conversation) {
  SqliteQuery query = database_.Query(
      "SELECT c.id, c.name, c.model, c.identity, c.settings, c.created, c.updated, c.head,"
      "       m.id, m.turn, m.depth, m.log_to, m.state, i.row, i.text, i.hash, i.forgotten"
      " FROM conversations c LEFT JOIN branches b ON b.row = c.head"
      " LEFT JOIN messages m ON m.row = b.tip LEFT JOIN messages i ON i.row = m.instructions"
      " WHERE c.row = ?");
  MOORING_ASSIGN_OR_RETURN(const bool row, query.Bind(conversation).Step());
  if (!row) return UnknownConversation();
  ConversationInfo info;
  info.id = query.Bytes(0);
  info.name = query.Bytes(1);
  info.model = query.Bytes(2);
  info.identity = query.Bytes(3);
  info.settings = query.Bytes(4);
  info.created_ms = query.Int(5);
  info.updated_ms = query.Int(6);
  info.branch = query.Int(7);
  info.tip = query.Bytes(8);
  info.turns = query.Int(9);
  info.messages = query.Int(10);
  info.log_end = {query.Int(11)};
  info.busy = !query.IsNull(12) && query.Int(12) == static_cast<int64_t>(MessageState::kInProgress);
  if (!query.IsNull(13)) {
    info.system_hash = HashFromBytes(query.Bytes(15));
    if (query.Int(16) == 0) info.system = query.Bytes(14);
  }
  return info;
}

Status Store::Tables::CheckNameIsFree(RowId owner, std::string_view name) {
  MOORING_RETURN_IF_ERROR(CheckName(name));
  SqliteQuery query = database_.Query("SELECT 1 FROM conversations WHERE owner = ? AND name = ?");
  MOORING_ASSIGN_OR_RETURN(const bool row, query.Bind(owner).Bind(name).Step());
  if (!row) return {};
  return Error{.kind = ErrorKind::kUsage,
               .what = "there is a conversation of that name already",
               .found = std::string(name),
               .remedy = "choose another name, or delete that one"};
}

Result<Store::Tables::ConversationRow> Store::Tables::Insert(RowId owner, const std::string& id,
                                                             const NewConversation& conversation,
                                                             int64_t created_ms) {
  if (!conversation.name.empty()) {
    MOORING_RETURN_IF_ERROR(CheckNameIsFree(owner, conversation.name));
  }
  ConversationRow made{.owner = owner};
  {
    SqliteQuery query = database_.Query(
        "INSERT INTO conversations (id, owner, name, model, identity, settings, created, updated,"
        " head) VALUES (?, ?, ?, ?, ?, ?, ?, ?, 0)");
    query.Bind(id).Bind(owner);
    if (conversation.name.empty()) {
      query.BindNull();
    } else {
      query.Bind(conversation.name);
    }
    query.Bind(conversation.model).Bind(conversation.identity).Bind(conversation.settings);
    MOORING_RETURN_IF_ERROR(query.Bind(created_ms).Bind(Now()).Run());
    made.row = database_.last_row();
  }
  MOORING_ASSIGN_OR_RETURN(made.head, MakeHeadAt(made, std::nullopt, nullptr));
  return made;
}

Status Store::Tables::Touch(RowId conversation) {
  return database_.Query("UPDATE conversations SET updated = ? WHERE row = ?")
      .Bind(Now())
      .Bind(conversation)
      .Run();
}

Result<bool> Store::Tables::IsBusy(RowId conversation) {
  return database_.Query("SELECT 1 FROM messages WHERE conversation = ? AND state = 0")
      .Bind(conversation)
      .Step();
}

Status Store::Tables::CheckIdle(RowId conversation) {
  MOORING_ASSIGN_OR_RETURN(const bool busy, IsBusy(conversation));
  if (!busy) return {};
  return Error{.kind = ErrorKind::kUsage,
               .what = "an answer is being generated in this conversation",
               .remedy = "wait until it has ended, or stop it"};
}

Result<RowId> Store::Tables::MakeHeadAt(const ConversationRow& conversation,
                                        std::optional<RowId> tip, bool* made) {
  std::optional<RowId> branch;
  {
    SqliteQuery query = database_.Query(
        "SELECT row FROM branches WHERE conversation = ? AND tip IS ?"
        " ORDER BY row = ? DESC, row DESC LIMIT 1");
    query.Bind(conversation.row).Bind(tip).Bind(conversation.head);
    MOORING_ASSIGN_OR_RETURN(const bool row, query.Step());
    if (row) branch = query.Int(0);
  }
  if (made != nullptr) *made = !branch;
  if (!branch) {
    SqliteQuery query =
        database_.Query("INSERT INTO branches (conversation, tip, created) VALUES (?, ?, ?)");
    MOORING_RETURN_IF_ERROR(query.Bind(conversation.row).Bind(tip).Bind(Now()).Run());
    branch = database_.last_row();
  }
  MOORING_RETURN_IF_ERROR(database_.Query("UPDATE conversations SET head = ? WHERE row = ?")
                              .Bind(*branch)
                              .Bind(conversation.row)
                              .Run());
  return *branch;
}

}  // namespace mooring
