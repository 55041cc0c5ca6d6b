// Whole conversations out of the store and into it; a fork into a new conversation is both.
#include <fmt/format.h>

#include <map>
#include <set>

#include "talk/conversation_names.h"
#include "talk/store_tables.h"

namespace mooring {
namespace {

using Tables = Store::Tables;

Error BadArchive(std::string found) {
  return Error{.kind = ErrorKind::kUsage,
               .what = "this conversation does not hold together",
               .found = std::move(found)};
}

// The messages of `rows`, each after its parent.
Result<std::vector<ArchivedMessage>> ReadMessages(Tables* tables, const std::vector<RowId>& rows,
                                                  std::map<RowId, size_t>* places) {
  std::vector<ArchivedMessage> messages;
  for (const RowId row : rows) {
    ArchivedMessage read;
    MOORING_ASSIGN_OR_RETURN(read.message, tables->Message(row, /*with_tokens=*/true));
    MOORING_RETURN_IF_ERROR(tables->Events(row, {0}, &read.events));
    SqliteQuery query = tables->database().Query("SELECT parent FROM messages WHERE row = ?");
    MOORING_RETURN_IF_ERROR(query.Bind(row).Step());
    if (const std::optional<RowId> parent = query.OptionalInt(0)) {
      const auto it = places->find(*parent);
      if (it == places->end()) return DamagedStore("a message whose parent is missing");
      read.parent = it->second;
    }
    (*places)[row] = messages.size();
    messages.push_back(std::move(read));
  }
  return messages;
}

Result<std::vector<RowId>> Rows(Tables* tables, RowId conversation, const char* sql) {
  SqliteQuery query = tables->database().Query(sql);
  query.Bind(conversation);
  std::vector<RowId> rows;
  for (;;) {
    MOORING_ASSIGN_OR_RETURN(const bool row, query.Step());
    if (!row) return rows;
    rows.push_back(query.Int(0));
  }
}

Result<ConversationArchive> ReadAll(Tables* tables, const Tables::ConversationRow& conversation) {
  ConversationArchive archive;
  MOORING_ASSIGN_OR_RETURN(archive.info, tables->Info(conversation.row));
  MOORING_ASSIGN_OR_RETURN(const std::vector<RowId> rows,
                           Rows(tables, conversation.row,
                                "SELECT row FROM messages WHERE conversation = ? ORDER BY row"));
  std::map<RowId, size_t> places;
  MOORING_ASSIGN_OR_RETURN(archive.messages, ReadMessages(tables, rows, &places));
  SqliteQuery query = tables->database().Query(
      "SELECT row, tip, created FROM branches WHERE conversation = ? ORDER BY row");
  query.Bind(conversation.row);
  for (;;) {
    MOORING_ASSIGN_OR_RETURN(const bool row, query.Step());
    if (!row) return archive;
    ArchivedBranch branch{.created_ms = query.Int(2)};
    if (const std::optional<RowId> tip = query.OptionalInt(1)) {
      const auto it = places.find(*tip);
      if (it == places.end()) return DamagedStore("a branch whose tip is missing");
      branch.tip = it->second;
    }
    if (query.Int(0) == conversation.head) archive.head = archive.branches.size();
    archive.branches.push_back(branch);
  }
}

Status CheckMessage(const ConversationArchive& archive, size_t index) {
  const auto& [parent, message, events] = archive.messages[index];
  if (parent && *parent >= index) return BadArchive("a message in front of its parent");
  const LogIndex from = parent ? archive.messages[*parent].message.to : LogIndex{0};
  const auto count = static_cast<int64_t>(message.tokens.ids.size());
  if (message.from != from || message.to < from ||
      (message.forgotten ? count != 0 : message.to - from != count)) {
    return BadArchive(fmt::format("message {} at another place of the log", index));
  }
  if (message.id.empty() || message.role.empty()) {
    return BadArchive(fmt::format("message {} without an id or a role", index));
  }
  if (message.forgotten && !message.text.empty()) {
    return BadArchive(fmt::format("text in message {}, which was forgotten", index));
  }
  return {};
}

// For each message the first branch that goes through it.
Result<std::vector<size_t>> BranchOfEach(const ConversationArchive& archive) {
  constexpr size_t kNone = SIZE_MAX;
  std::vector<size_t> branch_of(archive.messages.size(), kNone);
  for (size_t i = 0; i < archive.branches.size(); ++i) {
    std::optional<size_t> at = archive.branches[i].tip;
    if (at && *at >= archive.messages.size()) return BadArchive("a branch without its tip");
    for (; at && branch_of[*at] == kNone; at = archive.messages[*at].parent) branch_of[*at] = i;
  }
  for (const size_t branch : branch_of) {
    if (branch == kNone) return BadArchive("a message that is on no branch");
  }
  return branch_of;
}

Status CheckArchive(const ConversationArchive& archive) {
  if (archive.head >= archive.branches.size()) return BadArchive("no branch at its head");
  std::set<std::string_view> ids;
  for (size_t i = 0; i < archive.messages.size(); ++i) {
    MOORING_RETURN_IF_ERROR(CheckMessage(archive, i));
    if (!ids.insert(archive.messages[i].message.id).second) {
      return BadArchive("two messages of one id");
    }
  }
  return {};
}

Status WriteBranches(Tables* tables, const Tables::ConversationRow& conversation,
                     const ConversationArchive& archive, std::vector<RowId>* branches) {
  branches->push_back(conversation.head);  // made with the conversation
  for (size_t i = 1; i < archive.branches.size(); ++i) {
    SqliteQuery query =
        tables->database().Query("INSERT INTO branches (conversation, created) VALUES (?, ?)");
    query.Bind(conversation.row).Bind(archive.branches[i].created_ms);
    MOORING_RETURN_IF_ERROR(query.Run());
    branches->push_back(tables->database().last_row());
  }
  return tables->database()
      .Query("UPDATE conversations SET head = ? WHERE row = ?")
      .Bind((*branches)[archive.head])
      .Bind(conversation.row)
      .Run();
}

Status WriteMessages(Tables* tables, std::string_view owner, RowId conversation,
                     const ConversationArchive& archive, const std::vector<RowId>& branches) {
  MOORING_ASSIGN_OR_RETURN(const std::vector<size_t> branch_of, BranchOfEach(archive));
  std::vector<Tables::PathEnd> ends;
  for (size_t i = 0; i < archive.messages.size(); ++i) {
    const ArchivedMessage& archived = archive.messages[i];
    StoredMessage message = archived.message;
    if (message.state == MessageState::kInProgress) message.state = MessageState::kIncomplete;
    Tables::PathEnd end = archived.parent ? ends[*archived.parent] : Tables::PathEnd();
    Tables::Place place{
        .owner = owner, .conversation = conversation, .branch = branches[branch_of[i]]};
    MOORING_RETURN_IF_ERROR(tables->Append(&place, &end, message));
    end.log_end = message.to;
    MOORING_RETURN_IF_ERROR(tables->database()
                                .Query("UPDATE messages SET log_to = ? WHERE row = ?")
                                .Bind(message.to.value)
                                .Bind(*end.row)
                                .Run());
    MOORING_RETURN_IF_ERROR(tables->AddTokens(*end.row, message.tokens));
    MOORING_RETURN_IF_ERROR(tables->AddEvents(*end.row, archived.events));
    ends.push_back(end);
  }
  for (size_t i = 0; i < branches.size(); ++i) {
    const std::optional<size_t> tip = archive.branches[i].tip;
    MOORING_RETURN_IF_ERROR(
        tables->MoveTip(branches[i], tip ? ends[*tip].row : std::optional<RowId>()));
  }
  return {};
}

// The archive's id where no conversation has it, else a new one.
Result<std::string> FreeId(Tables* tables, const std::string& wish) {
  constexpr size_t kIdBytes = kConversationPrefix.size() + 26;
  const bool is_id = wish.size() == kIdBytes && wish.starts_with(kConversationPrefix);
  SqliteQuery query = tables->database().Query("SELECT 1 FROM conversations WHERE id = ?");
  MOORING_ASSIGN_OR_RETURN(const bool taken, query.Bind(wish).Step());
  if (is_id && !taken) return wish;
  return MakeId(kConversationPrefix);
}

Result<ConversationInfo> WriteAll(Tables* tables, std::string_view owner,
                                  const ConversationArchive& archive) {
  MOORING_RETURN_IF_ERROR(CheckArchive(archive));
  const ConversationInfo& info = archive.info;
  const NewConversation conversation{
      .name = info.name, .model = info.model, .identity = info.identity, .settings = info.settings};
  MOORING_ASSIGN_OR_RETURN(const RowId owner_row, tables->OwnerRow(owner));
  MOORING_ASSIGN_OR_RETURN(const std::string id, FreeId(tables, info.id));
  MOORING_ASSIGN_OR_RETURN(const Tables::ConversationRow made,
                           tables->Insert(owner_row, id, conversation, info.created_ms));
  std::vector<RowId> branches;
  MOORING_RETURN_IF_ERROR(WriteBranches(tables, made, archive, &branches));
  MOORING_RETURN_IF_ERROR(WriteMessages(tables, owner, made.row, archive, branches));
  return tables->Info(made.row);
}

}  // namespace

Result<ConversationArchive> Store::Export(ConversationKey key) {
  return tables_->Read([&]() -> Result<ConversationArchive> {
    MOORING_ASSIGN_OR_RETURN(const Tables::ConversationRow conversation,
                             tables_->Conversation(key));
    return ReadAll(tables_.get(), conversation);
  });
}

Result<ConversationInfo> Store::Import(std::string_view owner, const ConversationArchive& archive) {
  return tables_->Write([&] { return WriteAll(tables_.get(), owner, archive); });
}

Result<ConversationInfo> Store::Fork(ConversationKey key, std::string_view message,
                                     std::string_view name) {
  return tables_->Write([&]() -> Result<ConversationInfo> {
    MOORING_ASSIGN_OR_RETURN(const Tables::ConversationRow conversation,
                             tables_->Conversation(key));
    MOORING_ASSIGN_OR_RETURN(const RowId tip, tables_->MessageRow(conversation.row, message));
    MOORING_ASSIGN_OR_RETURN(const std::vector<RowId> rows, tables_->Path(tip));
    ConversationArchive archive;
    MOORING_ASSIGN_OR_RETURN(archive.info, tables_->Info(conversation.row));
    archive.info.id.clear();
    archive.info.name = name;
    archive.info.created_ms = tables_->Now();
    std::map<RowId, size_t> places;
    MOORING_ASSIGN_OR_RETURN(archive.messages, ReadMessages(tables_.get(), rows, &places));
    if (archive.messages.back().message.state == MessageState::kInProgress) {
      return Error{.kind = ErrorKind::kUsage,
                   .what = "an answer in progress cannot be forked",
                   .remedy = "fork the message before it, or wait"};
    }
    for (ArchivedMessage& archived : archive.messages) archived.message.response_id.clear();
    archive.branches.push_back(
        {.tip = archive.messages.size() - 1, .created_ms = archive.info.created_ms});
    return WriteAll(tables_.get(), key.owner, archive);
  });
}

}  // namespace mooring
