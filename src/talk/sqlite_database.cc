#include "talk/sqlite_database.h"

#include <fmt/format.h>
#include <sqlite3.h>

#include <utility>

#include "base/check.h"
#include "base/files.h"

namespace mooring {
namespace {

// locking_mode comes first: with the file for itself alone SQLite keeps the log's index in its own
// memory, and no other program can be in the way of a checkpoint.
constexpr const char* kSettings =
    "PRAGMA page_size=4096;"
    "PRAGMA locking_mode=EXCLUSIVE;"
    "PRAGMA journal_mode=WAL;"
    "PRAGMA synchronous=FULL;"
    "PRAGMA secure_delete=ON;"
    "PRAGMA foreign_keys=ON;"
    "PRAGMA trusted_schema=OFF;"
    "PRAGMA cell_size_check=ON;"
    "PRAGMA temp_store=MEMORY;"
    "PRAGMA mmap_size=0;";
static_assert(CheckedPages::kPageBytes == 4096);

ErrorKind KindOf(int code, int system_error) {
  switch (code & 0xFF) {
    case SQLITE_FULL:
    case SQLITE_NOMEM:
    case SQLITE_TOOBIG:
      return ErrorKind::kResources;
    case SQLITE_CORRUPT:
    case SQLITE_NOTADB:
      return ErrorKind::kModelInvalid;
    case SQLITE_BUSY:
    case SQLITE_LOCKED:
      return ErrorKind::kStateHeld;
    case SQLITE_IOERR:
      if (code == SQLITE_IOERR_DATA) return ErrorKind::kModelInvalid;
      if (code == SQLITE_IOERR_NOMEM) return ErrorKind::kResources;
      return KindOfErrno(system_error) == ErrorKind::kResources ? ErrorKind::kResources
                                                                : ErrorKind::kFailed;
    default:
      return ErrorKind::kFailed;
  }
}

std::string RemedyOf(ErrorKind kind) {
  switch (kind) {
    case ErrorKind::kResources:
      return "free some space on that disk; what was stored before is unharmed";
    case ErrorKind::kModelInvalid:
      return "keep the file aside and put back a backup of it";
    case ErrorKind::kStateHeld:
      return "end the other program that has it open";
    default:
      return "see that the disk works and that its folder can be written";
  }
}

}  // namespace

SqliteQuery::SqliteQuery(SqliteQuery&& other) noexcept
    : database_(other.database_),
      statement_(std::exchange(other.statement_, nullptr)),
      code_(other.code_),
      bound_(other.bound_) {}

SqliteQuery::~SqliteQuery() {
  if (statement_ == nullptr) return;
  sqlite3_reset(statement_);
  sqlite3_clear_bindings(statement_);
}

SqliteQuery& SqliteQuery::Bind(int64_t value) {
  ++bound_;
  if (code_ == SQLITE_OK) code_ = sqlite3_bind_int64(statement_, bound_, value);
  return *this;
}

SqliteQuery& SqliteQuery::Bind(std::string_view bytes) {
  ++bound_;
  if (code_ != SQLITE_OK) return *this;
  // A null pointer would bind NULL.
  code_ = bytes.empty()
              ? sqlite3_bind_zeroblob(statement_, bound_, 0)
              : sqlite3_bind_blob64(statement_, bound_, bytes.data(), bytes.size(), SQLITE_STATIC);
  return *this;
}

SqliteQuery& SqliteQuery::Bind(std::optional<int64_t> value) {
  return value ? Bind(*value) : BindNull();
}

SqliteQuery& SqliteQuery::BindNull() {
  ++bound_;
  if (code_ == SQLITE_OK) code_ = sqlite3_bind_null(statement_, bound_);
  return *this;
}

Result<bool> SqliteQuery::Step() {
  if (code_ != SQLITE_OK) return database_->ErrorOf(code_);
  DCHECK(bound_ == sqlite3_bind_parameter_count(statement_));
  const int code = sqlite3_step(statement_);
  if (code == SQLITE_ROW) return true;
  if (code == SQLITE_DONE) return false;
  code_ = code;
  return database_->ErrorOf(code);
}

Status SqliteQuery::Run() {
  MOORING_RETURN_IF_ERROR(Step());
  return {};
}

int64_t SqliteQuery::Int(int column) const { return sqlite3_column_int64(statement_, column); }

std::optional<int64_t> SqliteQuery::OptionalInt(int column) const {
  if (IsNull(column)) return std::nullopt;
  return Int(column);
}

std::string SqliteQuery::Bytes(int column) const {
  const void* bytes = sqlite3_column_blob(statement_, column);
  const int size = sqlite3_column_bytes(statement_, column);
  if (bytes == nullptr) return {};
  return {static_cast<const char*>(bytes), static_cast<size_t>(size)};
}

bool SqliteQuery::IsNull(int column) const {
  return sqlite3_column_type(statement_, column) == SQLITE_NULL;
}

Result<SqliteDatabase> SqliteDatabase::Open(const std::filesystem::path& file,
                                            const std::string& vfs) {
  SqliteDatabase database;
  database.file_ = file;
  MOORING_ASSIGN_OR_RETURN(database.disk_, CheckedPages::Create(vfs));
  constexpr int kFlags = SQLITE_OPEN_READWRITE | SQLITE_OPEN_CREATE | SQLITE_OPEN_NOFOLLOW |
                         SQLITE_OPEN_EXRESCODE | SQLITE_OPEN_NOMUTEX;
  const int code =
      sqlite3_open_v2(file.c_str(), &database.connection_, kFlags, database.disk_->name());
  if (code != SQLITE_OK) return database.ErrorOf(code);
  sqlite3_db_config(database.connection_, SQLITE_DBCONFIG_DEFENSIVE, 1, nullptr);
  // Counts for a file that is new.
  int seal_bytes = CheckedPages::kSealBytes;
  sqlite3_file_control(database.connection_, "main", SQLITE_FCNTL_RESERVE_BYTES, &seal_bytes);
  MOORING_RETURN_IF_ERROR(database.Execute(kSettings));
  return database;
}

SqliteDatabase::SqliteDatabase(SqliteDatabase&& other) noexcept
    : file_(std::move(other.file_)),
      disk_(std::move(other.disk_)),
      connection_(std::exchange(other.connection_, nullptr)),
      statements_(std::exchange(other.statements_, {})) {}

SqliteDatabase::~SqliteDatabase() {
  for (const auto& [sql, statement] : statements_) sqlite3_finalize(statement);
  CHECK(sqlite3_close(connection_) == SQLITE_OK, "a statement is still open");
}

SqliteQuery SqliteDatabase::Query(const char* sql) {
  sqlite3_stmt*& statement = statements_[sql];
  int code = SQLITE_OK;
  if (statement == nullptr) {
    code = sqlite3_prepare_v3(connection_, sql, -1, SQLITE_PREPARE_PERSISTENT, &statement, nullptr);
  }
  DCHECK(statement == nullptr || sqlite3_stmt_busy(statement) == 0);
  return {this, statement, code};
}

Status SqliteDatabase::Execute(const char* sql) {
  const int code = sqlite3_exec(connection_, sql, nullptr, nullptr, nullptr);
  if (code != SQLITE_OK) return ErrorOf(code);
  return {};
}

int64_t SqliteDatabase::changes() const { return sqlite3_changes64(connection_); }

int64_t SqliteDatabase::last_row() const { return sqlite3_last_insert_rowid(connection_); }

bool SqliteDatabase::in_transaction() const { return sqlite3_get_autocommit(connection_) == 0; }

Error SqliteDatabase::ErrorOf(int code) const {
  const int system_error = connection_ == nullptr ? 0 : sqlite3_system_errno(connection_);
  const ErrorKind kind = KindOf(code, system_error);
  std::string found = code == SQLITE_IOERR_DATA ? "a page that was changed behind our back"
                                                : std::string(sqlite3_errstr(code));
  const bool of_disk = (code & 0xFF) == SQLITE_IOERR || (code & 0xFF) == SQLITE_CANTOPEN;
  if (of_disk && system_error != 0) found += fmt::format(" ({})", ErrnoText(system_error));
  return Error{.kind = kind,
               .what = kind == ErrorKind::kModelInvalid ? "the store of conversations is damaged"
                                                        : "the store of conversations failed",
               .where = file_.string(),
               .found = std::move(found),
               .remedy = RemedyOf(kind)};
}

Result<SqliteTransaction> SqliteTransaction::Begin(SqliteDatabase* database) {
  const bool nested = database->in_transaction();
  MOORING_RETURN_IF_ERROR(database->Execute(nested ? "SAVEPOINT part" : "BEGIN IMMEDIATE"));
  return SqliteTransaction(database, nested);
}

SqliteTransaction::SqliteTransaction(SqliteTransaction&& other) noexcept
    : database_(std::exchange(other.database_, nullptr)), nested_(other.nested_) {}

SqliteTransaction::~SqliteTransaction() {
  // Some errors have undone it already. Undoing cannot fail in a way that keeps anything.
  if (database_ == nullptr || !database_->in_transaction()) return;
  (void)database_->Execute(nested_ ? "ROLLBACK TO part; RELEASE part" : "ROLLBACK");
}

Status SqliteTransaction::Commit() {
  MOORING_RETURN_IF_ERROR(database_->Execute(nested_ ? "RELEASE part" : "COMMIT"));
  database_ = nullptr;
  return {};
}

}  // namespace mooring
