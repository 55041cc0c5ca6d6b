// SQLite as this project uses it: one connection that has its file for itself, statements that are
// prepared once, values only ever as bound parameters, errors as values. All text is stored as
// BLOBs, so that any bytes come back as they went in.
//
// Settings: write-ahead log, a sync per transaction (synchronous=FULL), deleted bytes overwritten
// (secure_delete), foreign keys enforced, pages sealed (talk/checked_pages.h).
//
// Thread rule: one thread at a time; a query ends before its database does.
#ifndef MOORING_TALK_SQLITE_DATABASE_H_
#define MOORING_TALK_SQLITE_DATABASE_H_

#include <cstdint>
#include <filesystem>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <string_view>

#include "base/result.h"
#include "talk/checked_pages.h"

struct sqlite3;
struct sqlite3_stmt;

namespace mooring {

class SqliteDatabase;

// One run of a statement: bind from the first parameter on, then step. Ready for its next run when
// it ends.
class SqliteQuery {
 public:
  SqliteQuery(SqliteQuery&& other) noexcept;
  SqliteQuery& operator=(SqliteQuery&&) = delete;
  ~SqliteQuery();

  SqliteQuery& Bind(int64_t value);
  SqliteQuery& Bind(std::string_view bytes);  // borrowed until the query ends
  SqliteQuery& Bind(std::optional<int64_t> value);
  SqliteQuery& BindNull();

  // Whether there is a row, to be read until the next step.
  Result<bool> Step();
  // For statements that give no rows.
  Status Run();

  // Columns from 0 on. What is NULL or of another type reads as 0, as empty, as unset.
  int64_t Int(int column) const;
  std::optional<int64_t> OptionalInt(int column) const;
  std::string Bytes(int column) const;
  bool IsNull(int column) const;

 private:
  friend class SqliteDatabase;
  SqliteQuery(const SqliteDatabase* database, sqlite3_stmt* statement, int code)
      : database_(database), statement_(statement), code_(code) {}

  const SqliteDatabase* database_;
  sqlite3_stmt* statement_;
  int code_;  // of the first call that failed
  int bound_ = 0;
};

class SqliteDatabase {
 public:
  // Opens or makes the file; `vfs` names one of SQLite's disks, empty for the default. What lies
  // in the file is not looked at yet, apart from its head.
  static Result<SqliteDatabase> Open(const std::filesystem::path& file, const std::string& vfs);
  SqliteDatabase(SqliteDatabase&& other) noexcept;
  SqliteDatabase& operator=(SqliteDatabase&&) = delete;
  ~SqliteDatabase();  // writes the log back into the file

  // `sql` lives for ever (a literal) and is the statement's key. An error comes from Step.
  SqliteQuery Query(const char* sql);
  // Several statements without parameters or rows.
  Status Execute(const char* sql);
  // Rows that the last statement changed.
  int64_t changes() const;
  int64_t last_row() const;
  bool in_transaction() const;

 private:
  friend class SqliteQuery;
  SqliteDatabase() = default;
  Error ErrorOf(int code) const;

  std::filesystem::path file_;
  std::unique_ptr<CheckedPages> disk_;
  sqlite3* connection_ = nullptr;
  std::map<const char*, sqlite3_stmt*> statements_;
};

// Undone unless it is committed. Inside another one it is a part of that, undone by itself.
class SqliteTransaction {
 public:
  static Result<SqliteTransaction> Begin(SqliteDatabase* database);
  SqliteTransaction(SqliteTransaction&& other) noexcept;
  SqliteTransaction& operator=(SqliteTransaction&&) = delete;
  ~SqliteTransaction();

  // On the disk when this returns, unless it is part of another.
  Status Commit();

 private:
  SqliteTransaction(SqliteDatabase* database, bool nested) : database_(database), nested_(nested) {}
  SqliteDatabase* database_;  // null when it has ended
  bool nested_;
};

}  // namespace mooring

#endif  // MOORING_TALK_SQLITE_DATABASE_H_
