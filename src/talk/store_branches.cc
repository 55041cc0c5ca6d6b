// Branches in the store, and forgetting, which concerns all branches through a message.
#include "talk/store_tables.h"

namespace mooring {
namespace {

Result<std::vector<BranchInfo>> BranchesOf(Store::Tables* tables,
                                           const Store::Tables::ConversationRow& conversation) {
  SqliteQuery query = tables->database().Query(
      "SELECT b.row, m.id, m.turn, m.log_to, b.created FROM branches b"
      " LEFT JOIN messages m ON m.row = b.tip WHERE b.conversation = ? ORDER BY b.row");
  query.Bind(conversation.row);
  std::vector<BranchInfo> branches;
  for (;;) {
    MOORING_ASSIGN_OR_RETURN(const bool row, query.Step());
    if (!row) return branches;
    branches.push_back(BranchInfo{.id = query.Int(0),
                                  .tip = query.Bytes(1),
                                  .turns = query.Int(2),
                                  .log_end = {query.Int(3)},
                                  .created_ms = query.Int(4),
                                  .head = query.Int(0) == conversation.head});
  }
}

}  // namespace

Result<std::vector<BranchInfo>> Store::Branches(ConversationKey key) {
  return tables_->Read([&]() -> Result<std::vector<BranchInfo>> {
    MOORING_ASSIGN_OR_RETURN(const Tables::ConversationRow conversation,
                             tables_->Conversation(key));
    return BranchesOf(tables_.get(), conversation);
  });
}

Result<BranchInfo> Store::Rewind(ConversationKey key, std::string_view message) {
  return tables_->Write([&]() -> Result<BranchInfo> {
    MOORING_ASSIGN_OR_RETURN(Tables::ConversationRow conversation, tables_->Conversation(key));
    MOORING_ASSIGN_OR_RETURN(const std::optional<RowId> row,
                             tables_->OptionalMessageRow(conversation.row, message));
    MOORING_RETURN_IF_ERROR(tables_->CheckIdle(conversation.row));
    MOORING_ASSIGN_OR_RETURN(conversation.head, tables_->MakeHeadAt(conversation, row, nullptr));
    MOORING_RETURN_IF_ERROR(tables_->Touch(conversation.row));
    MOORING_ASSIGN_OR_RETURN(const std::vector<BranchInfo> branches,
                             BranchesOf(tables_.get(), conversation));
    for (const BranchInfo& branch : branches) {
      if (branch.head) return branch;
    }
    return DamagedStore("a conversation without a head");
  });
}

Status Store::SwitchTo(ConversationKey key, BranchId branch) {
  return tables_->Write([&]() -> Status {
    MOORING_ASSIGN_OR_RETURN(const Tables::ConversationRow conversation,
                             tables_->Conversation(key));
    MOORING_RETURN_IF_ERROR(tables_->Tip(conversation.row, branch));  // whether it is one of its
    MOORING_RETURN_IF_ERROR(tables_->CheckIdle(conversation.row));
    MOORING_RETURN_IF_ERROR(tables_->database()
                                .Query("UPDATE conversations SET head = ? WHERE row = ?")
                                .Bind(branch)
                                .Bind(conversation.row)
                                .Run());
    return tables_->Touch(conversation.row);
  });
}

Status Store::Forget(ConversationKey key, std::string_view message) {
  return tables_->Write([&]() -> Status {
    MOORING_ASSIGN_OR_RETURN(const Tables::ConversationRow conversation,
                             tables_->Conversation(key));
    MOORING_ASSIGN_OR_RETURN(const RowId row, tables_->MessageRow(conversation.row, message));
    MOORING_ASSIGN_OR_RETURN(const StoredMessage now, tables_->Message(row, false));
    if (now.state == MessageState::kInProgress) {
      return Error{.kind = ErrorKind::kUsage,
                   .what = "an answer in progress cannot be forgotten",
                   .remedy = "wait until it has ended, or stop it"};
    }
    constexpr const char* kStatements[] = {
        "UPDATE messages SET text = x'', forgotten = 1 WHERE row = ?",
        "DELETE FROM tokens WHERE message = ?", "DELETE FROM replies WHERE message = ?",
        "WITH RECURSIVE after (row) AS (SELECT ? UNION ALL SELECT m.row FROM messages m"
        " JOIN after ON m.parent = after.row)"
        " DELETE FROM events WHERE message IN (SELECT row FROM after)"};
    for (const char* statement : kStatements) {
      MOORING_RETURN_IF_ERROR(tables_->database().Query(statement).Bind(row).Run());
    }
    tables_->ScrubLater();
    return tables_->Touch(conversation.row);
  });
}

}  // namespace mooring
