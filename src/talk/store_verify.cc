// Reads the whole store against its own rules (docs/store.md).
#include <fmt/format.h>

#include "talk/store_tables.h"

namespace mooring {
namespace {

using Tables = Store::Tables;

// Each finds rows that break a rule; the first column names one.
struct Rule {
  const char* sql;
  const char* fault;
};
constexpr Rule kRules[] = {
    {"SELECT c.row FROM conversations c LEFT JOIN branches b"
     " ON b.row = c.head AND b.conversation = c.row WHERE b.row IS NULL",
     "conversation {} without a head"},
    {"SELECT b.row FROM branches b LEFT JOIN messages m ON m.row = b.tip WHERE b.tip IS NOT NULL"
     " AND (m.row IS NULL OR m.conversation <> b.conversation)",
     "branch {} without its tip"},
    {"SELECT m.row FROM messages m LEFT JOIN messages p ON p.row = m.parent"
     " WHERE m.depth <> coalesce(p.depth, 0) + 1 OR m.log_from <> coalesce(p.log_to, 0)"
     " OR m.log_to < m.log_from OR m.parent >= m.row OR p.conversation <> m.conversation"
     " OR m.turn <> coalesce(p.turn, 0) + (m.role = CAST('user' AS BLOB))",
     "message {} that does not follow its parent"},
    {"SELECT m.row FROM messages m JOIN tokens t ON t.message = m.row WHERE m.forgotten",
     "tokens of message {}, which was forgotten"},
};

Status CheckRules(Tables* tables) {
  for (const Rule& rule : kRules) {
    SqliteQuery query = tables->database().Query(rule.sql);
    MOORING_ASSIGN_OR_RETURN(const bool row, query.Step());
    if (row) return DamagedStore(fmt::format(fmt::runtime(rule.fault), query.Int(0)));
  }
  return {};
}

// SQLite's own check of pages, rows and indices.
Status CheckPages(Tables* tables) {
  SqliteQuery query = tables->database().Query("PRAGMA integrity_check(1)");
  MOORING_ASSIGN_OR_RETURN(const bool row, query.Step());
  // A TEXT column reads as bytes too.
  if (!row || query.Bytes(0) != "ok") return DamagedStore(query.Bytes(0));
  SqliteQuery keys = tables->database().Query("PRAGMA foreign_key_check");
  MOORING_ASSIGN_OR_RETURN(const bool fault, keys.Step());
  if (fault) return DamagedStore("a row without the one it belongs to");
  return {};
}

Status CheckMessages(Tables* tables) {
  SqliteQuery query = tables->database().Query("SELECT row FROM messages ORDER BY row");
  for (;;) {
    MOORING_ASSIGN_OR_RETURN(const bool row, query.Step());
    if (!row) return {};
    MOORING_ASSIGN_OR_RETURN(const StoredMessage message,
                             tables->Message(query.Int(0), /*with_tokens=*/true));
    if (!message.forgotten && message.hash != HashMessage(message.role, message.text)) {
      return DamagedStore(fmt::format("message {} with another hash", query.Int(0)));
    }
  }
}

}  // namespace

Status Store::Verify() {
  return tables_->Read([&]() -> Status {
    MOORING_RETURN_IF_ERROR(CheckPages(tables_.get()));
    MOORING_RETURN_IF_ERROR(CheckRules(tables_.get()));
    return CheckMessages(tables_.get());
  });
}

}  // namespace mooring
