#include "talk/store.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <sys/stat.h>

#include <algorithm>
#include <cerrno>
#include <chrono>
#include <limits>
#include <system_error>
#include <utility>

#include "base/files.h"
#include "talk/conversation_names.h"
#include "talk/store_schema.h"
#include "talk/store_tables.h"

namespace mooring {
namespace {

constexpr mode_t kPrivateFolder = 0700;
constexpr mode_t kPrivateFile = 0600;
constexpr size_t kMostListed = 1000;

Error FolderError(std::string what, const std::filesystem::path& path, int error_number) {
  const ErrorKind kind = KindOfErrno(error_number);
  return Error{.kind = kind == ErrorKind::kResources ? kind : ErrorKind::kFailed,
               .what = std::move(what),
               .where = path.string(),
               .found = ErrnoText(error_number),
               .remedy = "choose a state folder that this user may write"};
}

Status SyncFolder(const std::filesystem::path& folder) {
  const OwnedDescriptor descriptor(::open(folder.c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC));
  if (!descriptor.ok() || ::fsync(descriptor.get()) != 0) {
    return FolderError("cannot sync the state folder", folder, errno);
  }
  return {};
}

// The folder without any symbolic link in its path, made if it is missing.
Result<std::filesystem::path> PrepareFolder(const std::filesystem::path& folder) {
  std::error_code error;
  std::filesystem::create_directories(folder.parent_path(), error);
  if (::mkdir(folder.c_str(), kPrivateFolder) != 0 && errno != EEXIST) {
    return FolderError("cannot make the state folder", folder, errno);
  }
  std::filesystem::path canonical = std::filesystem::canonical(folder, error);
  if (error) return FolderError("cannot open the state folder", folder, error.value());
  return canonical;
}

// SQLite would make the file for all to read; its other files take this one's mode.
Status PrepareFile(const std::filesystem::path& file, int flags) {
  const OwnedDescriptor descriptor(
      ::open(file.c_str(), O_RDWR | O_CREAT | O_CLOEXEC | O_NOFOLLOW | flags, kPrivateFile));
  if (!descriptor.ok()) return FolderError("cannot open the store's file", file, errno);
  struct stat info {};
  if (::fstat(descriptor.get(), &info) != 0 || !S_ISREG(info.st_mode)) {
    return FolderError("cannot open the store's file", file, EINVAL);
  }
  if (::fchmod(descriptor.get(), kPrivateFile) != 0) {
    return FolderError("cannot keep the store's file private", file, errno);
  }
  return SyncFolder(file.parent_path());
}

int64_t SystemNow() {
  return std::chrono::duration_cast<std::chrono::milliseconds>(
             std::chrono::system_clock::now().time_since_epoch())
      .count();
}

int64_t SizeOf(const std::filesystem::path& file) {
  std::error_code error;
  const uintmax_t size = std::filesystem::file_size(file, error);
  return error ? 0 : static_cast<int64_t>(size);
}

}  // namespace

Result<std::unique_ptr<Store::Tables>> Store::Tables::Open(StoreOptions options) {
  MOORING_ASSIGN_OR_RETURN(const std::filesystem::path folder, PrepareFolder(options.folder));
  MOORING_ASSIGN_OR_RETURN(StateLock lock, StateLock::Take(folder));
  std::filesystem::path file = folder / kFileName;
  MOORING_RETURN_IF_ERROR(PrepareFile(file, 0));
  MOORING_ASSIGN_OR_RETURN(SqliteDatabase database, SqliteDatabase::Open(file, options.vfs));
  MOORING_RETURN_IF_ERROR(PrepareSchema(&database, file.string()));
  if (!options.now_ms) options.now_ms = SystemNow;
  std::unique_ptr<Tables> tables(
      new Tables(std::move(database), std::move(lock), std::move(file), std::move(options.now_ms)));
  MOORING_RETURN_IF_ERROR(tables->Write(
      [&] { return tables->database_.Execute("UPDATE messages SET state = 2 WHERE state = 0"); }));
  return tables;
}

Result<std::unique_ptr<Store>> Store::Open(StoreOptions options) {
  MOORING_ASSIGN_OR_RETURN(std::unique_ptr<Tables> tables, Tables::Open(std::move(options)));
  return std::unique_ptr<Store>(new Store(std::move(tables)));
}

Store::Store(std::unique_ptr<Tables> tables) : tables_(std::move(tables)) {}
Store::~Store() = default;

Status Store::Group(FunctionRef<void()> calls) { return tables_->Group(calls); }

Result<ConversationInfo> Store::Create(std::string_view owner,
                                       const NewConversation& conversation) {
  return tables_->Write([&]() -> Result<ConversationInfo> {
    MOORING_ASSIGN_OR_RETURN(const RowId owner_row, tables_->OwnerRow(owner));
    MOORING_ASSIGN_OR_RETURN(const std::string id, MakeId(kConversationPrefix));
    const int64_t now = tables_->Now();
    MOORING_ASSIGN_OR_RETURN(const Tables::ConversationRow made,
                             tables_->Insert(owner_row, id, conversation, now));
    if (conversation.system) {
      StoredMessage system{.role = "system", .text = *conversation.system, .created_ms = now};
      MOORING_ASSIGN_OR_RETURN(system.id, MakeId(kMessagePrefix));
      Tables::Place place{.owner = owner, .conversation = made.row, .branch = made.head};
      Tables::PathEnd end;
      MOORING_RETURN_IF_ERROR(tables_->Append(&place, &end, system));
      MOORING_RETURN_IF_ERROR(tables_->MoveTip(made.head, end.row));
    }
    return tables_->Info(made.row);
  });
}

Result<ConversationInfo> Store::Find(std::string_view owner, std::string_view reference) {
  return tables_->Read([&]() -> Result<ConversationInfo> {
    MOORING_ASSIGN_OR_RETURN(const ReferenceKind kind, KindOfReference(reference));
    if (kind == ReferenceKind::kId) {
      MOORING_ASSIGN_OR_RETURN(const Tables::ConversationRow found,
                               tables_->Conversation({owner, reference}));
      return tables_->Info(found.row);
    }
    MOORING_ASSIGN_OR_RETURN(const std::optional<RowId> owner_row, tables_->FindOwner(owner));
    RowId found = 0;
    {
      SqliteQuery query =
          tables_->database().Query("SELECT row FROM conversations WHERE owner = ? AND name = ?");
      MOORING_ASSIGN_OR_RETURN(const bool row, query.Bind(owner_row).Bind(reference).Step());
      if (!row) return UnknownConversation();
      found = query.Int(0);
    }
    return tables_->Info(found);
  });
}

Result<ConversationInfo> Store::FindOrCreate(std::string_view owner, std::string_view reference,
                                             NewConversation conversation) {
  return tables_->Write([&]() -> Result<ConversationInfo> {
    Result<ConversationInfo> found = Find(owner, reference);
    if (found.ok() || found.error().kind != ErrorKind::kNotFound) return found;
    MOORING_ASSIGN_OR_RETURN(const ReferenceKind kind, KindOfReference(reference));
    if (kind == ReferenceKind::kId) return found;
    conversation.name = reference;
    return Create(owner, conversation);
  });
}

Result<std::vector<ConversationInfo>> Store::List(std::string_view owner,
                                                  const ListOptions& options) {
  using Infos = std::vector<ConversationInfo>;
  return tables_->Read([&]() -> Result<Infos> {
    if (options.limit < 1 || options.limit > kMostListed) {
      return Error{.kind = ErrorKind::kUsage,
                   .what = "this many conversations cannot be listed at once",
                   .expected = fmt::format("1 to {}", kMostListed),
                   .found = fmt::format("{}", options.limit)};
    }
    MOORING_ASSIGN_OR_RETURN(const std::optional<RowId> owner_row, tables_->FindOwner(owner));
    int64_t before_ms = std::numeric_limits<int64_t>::max();
    RowId before_row = before_ms;
    if (!options.after.empty()) {
      MOORING_ASSIGN_OR_RETURN(const Tables::ConversationRow after,
                               tables_->Conversation({owner, options.after}));
      MOORING_ASSIGN_OR_RETURN(const ConversationInfo info, tables_->Info(after.row));
      before_ms = info.updated_ms;
      before_row = after.row;
    }
    std::vector<RowId> rows;
    {
      SqliteQuery query = tables_->database().Query(
          "SELECT row FROM conversations WHERE owner = ? AND (updated, row) < (?, ?)"
          " ORDER BY updated DESC, row DESC LIMIT ?");
      query.Bind(owner_row).Bind(before_ms).Bind(before_row);
      query.Bind(static_cast<int64_t>(options.limit));
      for (;;) {
        MOORING_ASSIGN_OR_RETURN(const bool row, query.Step());
        if (!row) break;
        rows.push_back(query.Int(0));
      }
    }
    Infos infos;
    for (const RowId row : rows) {
      MOORING_ASSIGN_OR_RETURN(infos.emplace_back(), tables_->Info(row));
    }
    return infos;
  });
}

Status Store::Rename(ConversationKey key, std::string_view name) {
  return tables_->Write([&]() -> Status {
    MOORING_ASSIGN_OR_RETURN(const Tables::ConversationRow found, tables_->Conversation(key));
    MOORING_ASSIGN_OR_RETURN(const ConversationInfo info, tables_->Info(found.row));
    if (info.name == name) return {};
    if (!name.empty()) MOORING_RETURN_IF_ERROR(tables_->CheckNameIsFree(found.owner, name));
    SqliteQuery query =
        tables_->database().Query("UPDATE conversations SET name = ? WHERE row = ?");
    if (name.empty()) {
      query.BindNull();
    } else {
      query.Bind(name);
    }
    MOORING_RETURN_IF_ERROR(query.Bind(found.row).Run());
    return tables_->Touch(found.row);
  });
}

Status Store::SetModel(ConversationKey key, std::string_view model, std::string_view identity) {
  return tables_->Write([&]() -> Status {
    MOORING_ASSIGN_OR_RETURN(const Tables::ConversationRow found, tables_->Conversation(key));
    return tables_->database()
        .Query("UPDATE conversations SET model = ?, identity = ? WHERE row = ?")
        .Bind(model)
        .Bind(identity)
        .Bind(found.row)
        .Run();
  });
}

Status Store::SetSettings(ConversationKey key, std::string_view settings) {
  return tables_->Write([&]() -> Status {
    MOORING_ASSIGN_OR_RETURN(const Tables::ConversationRow found, tables_->Conversation(key));
    return tables_->database()
        .Query("UPDATE conversations SET settings = ? WHERE row = ?")
        .Bind(settings)
        .Bind(found.row)
        .Run();
  });
}

Status Store::Delete(ConversationKey key) {
  return tables_->Write([&]() -> Status {
    MOORING_ASSIGN_OR_RETURN(const Tables::ConversationRow found, tables_->Conversation(key));
    tables_->ScrubLater();
    return tables_->database()
        .Query("DELETE FROM conversations WHERE row = ?")
        .Bind(found.row)
        .Run();
  });
}

Result<int64_t> Store::DeleteUntouched(int64_t before_ms) {
  return tables_->Write([&]() -> Result<int64_t> {
    MOORING_RETURN_IF_ERROR(
        tables_->database()
            .Query("DELETE FROM conversations WHERE updated < ? AND NOT EXISTS (SELECT 1 FROM"
                   " messages m WHERE m.conversation = conversations.row AND m.state = 0)")
            .Bind(before_ms)
            .Run());
    const int64_t deleted = tables_->database().changes();
    if (deleted > 0) tables_->ScrubLater();
    return deleted;
  });
}

Result<StoreCounts> Store::Count() {
  return tables_->Read([&]() -> Result<StoreCounts> {
    SqliteQuery query = tables_->database().Query(
        "SELECT (SELECT count(*) FROM conversations), (SELECT count(*) FROM branches),"
        " (SELECT count(*) FROM messages)");
    MOORING_ASSIGN_OR_RETURN(const bool row, query.Step());
    StoreCounts counts;
    if (!row) return counts;
    counts.conversations = query.Int(0);
    counts.branches = query.Int(1);
    counts.messages = query.Int(2);
    counts.file_bytes = SizeOf(tables_->file());
    counts.log_bytes = SizeOf(tables_->file().string() + "-wal");
    return counts;
  });
}

Status Store::BackUp(const std::filesystem::path& path) {
  return tables_->Read([&]() -> Status {
    CHECK(!tables_->in_group(), "a group cannot be backed up");
    MOORING_RETURN_IF_ERROR(PrepareFile(path, O_EXCL));
    const Status copied =
        tables_->database().Query("VACUUM INTO CAST(? AS TEXT)").Bind(path.string()).Run();
    const OwnedDescriptor copy(::open(path.c_str(), O_RDONLY | O_CLOEXEC | O_NOFOLLOW));
    const bool synced = copy.ok() && ::fsync(copy.get()) == 0;
    const int error_number = errno;
    if (copied.ok() && synced) return {};
    ::unlink(path.c_str());
    if (!copied.ok()) return copied;
    return FolderError("cannot sync the backup", path, error_number);
  });
}

}  // namespace mooring
