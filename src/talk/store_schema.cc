#include "talk/store_schema.h"

#include <fmt/format.h>

#include <iterator>

namespace mooring {
namespace {

constexpr int64_t kApplicationId = 0x4D6F6F72;  // "Moor"

// Rows are never numbered again (AUTOINCREMENT), and a parent is older than its children.
constexpr const char* kTables = R"sql(
CREATE TABLE owners (
  row INTEGER PRIMARY KEY,
  owner BLOB NOT NULL UNIQUE
) STRICT;

CREATE TABLE conversations (
  row INTEGER PRIMARY KEY AUTOINCREMENT,
  id BLOB NOT NULL UNIQUE,
  owner INTEGER NOT NULL REFERENCES owners (row),
  name BLOB,
  model BLOB NOT NULL,
  identity BLOB NOT NULL,
  settings BLOB NOT NULL,
  created INTEGER NOT NULL,
  updated INTEGER NOT NULL,
  head INTEGER NOT NULL,
  UNIQUE (owner, name)
) STRICT;
CREATE INDEX conversations_by_change ON conversations (owner, updated DESC, row DESC);

CREATE TABLE branches (
  row INTEGER PRIMARY KEY AUTOINCREMENT,
  conversation INTEGER NOT NULL REFERENCES conversations (row) ON DELETE CASCADE,
  tip INTEGER,
  created INTEGER NOT NULL
) STRICT;
CREATE INDEX branches_of ON branches (conversation);

CREATE TABLE messages (
  row INTEGER PRIMARY KEY AUTOINCREMENT,
  conversation INTEGER NOT NULL REFERENCES conversations (row) ON DELETE CASCADE,
  parent INTEGER REFERENCES messages (row) DEFERRABLE INITIALLY DEFERRED,
  branch INTEGER NOT NULL,
  turn_start INTEGER NOT NULL,
  depth INTEGER NOT NULL,
  turn INTEGER NOT NULL,
  log_from INTEGER NOT NULL,
  log_to INTEGER NOT NULL,
  instructions INTEGER,
  last_part INTEGER,
  id BLOB NOT NULL,
  role BLOB NOT NULL,
  text BLOB NOT NULL,
  state INTEGER NOT NULL,
  forgotten INTEGER NOT NULL,
  hash BLOB NOT NULL,
  pair BLOB,
  response BLOB,
  finish_reason BLOB NOT NULL,
  sampling BLOB NOT NULL,
  seed INTEGER,
  created INTEGER NOT NULL,
  UNIQUE (conversation, id)
) STRICT;
CREATE INDEX messages_by_parent ON messages (parent);
CREATE INDEX messages_by_pair ON messages (pair) WHERE pair IS NOT NULL;
CREATE INDEX messages_by_response ON messages (response) WHERE response IS NOT NULL;
CREATE INDEX messages_in_progress ON messages (conversation) WHERE state = 0;

CREATE TABLE tokens (
  message INTEGER PRIMARY KEY REFERENCES messages (row) ON DELETE CASCADE,
  tokens BLOB NOT NULL
) STRICT;

CREATE TABLE events (
  row INTEGER PRIMARY KEY AUTOINCREMENT,
  message INTEGER NOT NULL REFERENCES messages (row) ON DELETE CASCADE,
  place INTEGER NOT NULL,
  bytes BLOB NOT NULL
) STRICT;
CREATE INDEX events_of ON events (message);

CREATE TABLE replies (
  row INTEGER PRIMARY KEY,
  owner INTEGER NOT NULL REFERENCES owners (row),
  key BLOB NOT NULL,
  message INTEGER NOT NULL REFERENCES messages (row) ON DELETE CASCADE,
  digest BLOB NOT NULL,
  reply BLOB NOT NULL,
  created INTEGER NOT NULL,
  UNIQUE (owner, key)
) STRICT;
CREATE INDEX replies_of ON replies (message);
CREATE INDEX replies_by_age ON replies (created);
)sql";

// What each version added to the one before, from 2 on.
constexpr const char* kSteps[] = {
    "CREATE INDEX messages_by_place ON messages (conversation, log_from);",
};
static_assert(std::size(kSteps) == kStoreSchemaVersion - 1);

Result<int64_t> Number(SqliteDatabase* database, const char* sql) {
  SqliteQuery query = database->Query(sql);
  MOORING_ASSIGN_OR_RETURN(const bool row, query.Step());
  return row ? query.Int(0) : 0;
}

// From `version` to the newest.
Status Step(SqliteDatabase* database, int64_t version) {
  for (; version < kStoreSchemaVersion; ++version) {
    MOORING_RETURN_IF_ERROR(database->Execute(kSteps[version - 1]));
  }
  const std::string mark = fmt::format("PRAGMA user_version={}", kStoreSchemaVersion);
  return database->Execute(mark.c_str());
}

}  // namespace

Status PrepareSchema(SqliteDatabase* database, const std::string& where) {
  MOORING_ASSIGN_OR_RETURN(const int64_t application, Number(database, "PRAGMA application_id"));
  MOORING_ASSIGN_OR_RETURN(const int64_t version, Number(database, "PRAGMA user_version"));
  MOORING_ASSIGN_OR_RETURN(const int64_t tables,
                           Number(database, "SELECT count(*) FROM sqlite_schema"));
  if (application == 0 && version == 0 && tables == 0) {
    MOORING_ASSIGN_OR_RETURN(SqliteTransaction transaction, SqliteTransaction::Begin(database));
    MOORING_RETURN_IF_ERROR(database->Execute(kTables));
    const std::string mark = fmt::format("PRAGMA application_id={}", kApplicationId);
    MOORING_RETURN_IF_ERROR(database->Execute(mark.c_str()));
    MOORING_RETURN_IF_ERROR(Step(database, 1));
    return transaction.Commit();
  }
  if (application != kApplicationId || version < 1) {
    return Error{.kind = ErrorKind::kModelInvalid,
                 .what = "this file is no store of conversations",
                 .where = where,
                 .expected = fmt::format("application {:#x}, version {}", kApplicationId,
                                         kStoreSchemaVersion),
                 .found = fmt::format("application {:#x}, version {}", application, version),
                 .remedy = "move it away, or choose another state folder"};
  }
  if (version > kStoreSchemaVersion) {
    return Error{.kind = ErrorKind::kConfig,
                 .what = "the store of conversations was written by a newer mooring",
                 .where = where,
                 .expected = fmt::format("version {} or older", kStoreSchemaVersion),
                 .found = fmt::format("version {}", version),
                 .remedy = "use that mooring, or another state folder; nothing was changed"};
  }
  if (version == kStoreSchemaVersion) return {};
  MOORING_ASSIGN_OR_RETURN(SqliteTransaction transaction, SqliteTransaction::Begin(database));
  MOORING_RETURN_IF_ERROR(Step(database, version));
  return transaction.Commit();
}

}  // namespace mooring
