// The inside of the store: its database behind one lock, and the look-ups that its parts share.
// Nothing here checks an owner but Conversation(), through which every call goes first.
//
// Thread rule: inside Read, Write and Group only.
#ifndef MOORING_TALK_STORE_TABLES_H_
#define MOORING_TALK_STORE_TABLES_H_

#include <cstdint>
#include <filesystem>
#include <functional>
#include <memory>
#include <mutex>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <type_traits>
#include <utility>
#include <vector>

#include "talk/sqlite_database.h"
#include "talk/state_lock.h"
#include "talk/store.h"

namespace mooring {

using RowId = int64_t;

class Store::Tables {
 public:
  struct ConversationRow {
    RowId row = 0;
    RowId owner = 0;
    RowId head = 0;
  };

  // Where a branch ends, or any of its messages stands: what a child takes over.
  struct PathEnd {
    std::optional<RowId> row = {};  // unset: before the first message
    int64_t depth = 0;              // messages up to here
    int64_t turn = 0;
    LogIndex log_end = {};
    std::optional<RowId> instructions = {};     // the message that holds them
    std::optional<RowId> last_part = {};        // the last message that takes part in matching
    std::optional<MessageHash> last_hash = {};  // its hash
  };

  // Where messages are appended.
  struct Place {
    std::string_view owner;
    RowId conversation = 0;
    RowId branch = 0;
    std::optional<RowId> turn_start = {};  // unset: the next message begins a turn
  };

  static Result<std::unique_ptr<Tables>> Open(StoreOptions options);

  // Runs `work`, which returns a Result or Status: all of it is on the disk, or nothing of it.
  template <typename Work>
  std::invoke_result_t<Work> Write(Work&& work) {
    const std::lock_guard<std::recursive_mutex> guard(mutex_);
    if (group_error_) return *group_error_;
    auto result = Attempt(work);
    if (!result.ok() && in_group_ && !database_.in_transaction()) group_error_ = result.error();
    if (!result.ok() || in_group_) return result;
    MOORING_RETURN_IF_ERROR(Scrub());
    return result;
  }
  template <typename Work>
  std::invoke_result_t<Work> Read(Work&& work) {
    const std::lock_guard<std::recursive_mutex> guard(mutex_);
    return work();
  }
  Status Group(FunctionRef<void()> calls);

  SqliteDatabase& database() { return database_; }
  const std::filesystem::path& file() const { return file_; }
  int64_t Now() const { return now_ms_(); }
  bool in_group() const { return in_group_; }
  // What was deleted is to leave the log too, once it is committed.
  void ScrubLater() { scrub_ = scrub_for_caller_ = true; }

  Result<std::optional<RowId>> FindOwner(std::string_view owner);
  Result<RowId> OwnerRow(std::string_view owner);  // makes it
  Result<ConversationRow> Conversation(ConversationKey key);
  Result<ConversationInfo> Info(RowId conversation);
  Status CheckNameIsFree(RowId owner, std::string_view name);
  // An empty conversation with one empty branch.
  Result<ConversationRow> Insert(RowId owner, const std::string& id,
                                 const NewConversation& conversation, int64_t created_ms);
  Status Touch(RowId conversation);
  // kUsage while an answer is in progress.
  Status CheckIdle(RowId conversation);
  Result<bool> IsBusy(RowId conversation);

  Result<RowId> MessageRow(RowId conversation, std::string_view id);
  // Unset for "", the place before the first message.
  Result<std::optional<RowId>> OptionalMessageRow(RowId conversation, std::string_view id);
  Result<StoredMessage> Message(RowId message, bool with_tokens);
  // The rows from the first message to `tip`.
  Result<std::vector<RowId>> Path(std::optional<RowId> tip);
  Result<PathEnd> End(std::optional<RowId> message);
  Result<std::optional<RowId>> Tip(RowId conversation, std::optional<BranchId> branch);
  // `message` behind `end`, which moves on to it. Its id, role, text, state, answer's fields and
  // time count, and its hash when it is forgotten; the rest follows from `end`.
  Status Append(Place* place, PathEnd* end, const StoredMessage& message);
  Status AddTokens(RowId message, const LogTokens& tokens);
  Status AddEvents(RowId message, std::span<const MemoryEvent> events);
  // Those of one message, from a place of the log on, behind what `events` holds.
  Status Events(RowId message, LogIndex from, std::vector<MemoryEvent>* events);
  Status MoveTip(RowId branch, std::optional<RowId> tip);
  // The branch that ends at `tip`, made if there is none, becomes the head.
  Result<RowId> MakeHeadAt(const ConversationRow& conversation, std::optional<RowId> tip,
                           bool* made);

 private:
  Tables(SqliteDatabase database, StateLock lock, std::filesystem::path file,
         std::function<int64_t()> now_ms)
      : lock_(std::move(lock)),
        database_(std::move(database)),
        file_(std::move(file)),
        now_ms_(std::move(now_ms)) {}

  template <typename Work>
  std::invoke_result_t<Work> Attempt(Work& work) {
    MOORING_ASSIGN_OR_RETURN(SqliteTransaction transaction, SqliteTransaction::Begin(&database_));
    auto result = work();
    if (result.ok()) MOORING_RETURN_IF_ERROR(transaction.Commit());
    return result;
  }
  // An error only for those who asked: what another call has kept stays acknowledged.
  Status Scrub();

  StateLock lock_;  // let go last
  SqliteDatabase database_;
  std::filesystem::path file_;
  std::function<int64_t()> now_ms_;
  std::recursive_mutex mutex_;
  bool in_group_ = false;
  bool scrub_ = true;  // the last process may have ended before it did
  bool scrub_for_caller_ = false;
  std::optional<Error> group_error_;  // the one that undid the whole group
};

Error UnknownConversation();
Error UnknownMessage();
// `what` of the store is not as it was written, though the disk read it well.
Error DamagedStore(std::string what);
MessageHash HashFromBytes(std::string_view bytes);
std::string_view BytesOf(const MessageHash& hash);

}  // namespace mooring

#endif  // MOORING_TALK_STORE_TABLES_H_
