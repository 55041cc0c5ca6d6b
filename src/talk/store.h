// The durable store of conversations: one SQLite database in a state folder (docs/store.md has the
// schema and the rules). What a call has acknowledged survives the end of the process and of the
// power; a turn is there whole or not at all.
//
// The store owns its folder under a lock. Files are mode 0600, checked page by page: a flipped bit
// is an error (kModelInvalid), never another text. What is deleted or forgotten is overwritten.
//
// Every call names an owner, and nothing is ever found across owners: kNotFound is the same for
// what is another's and for what never was.
//
// Errors: kNotFound; kUsage for a name or argument that cannot be; kResources when the disk is
// full; kModelInvalid when the file is damaged; kConfig for a newer schema; kStateHeld, naming its
// process, when another program has the folder; kFailed for what else the disk refused. After an
// error nothing of the call was kept, and the store goes on; only Delete and Forget may have done
// their work and fail to overwrite the old bytes, which the next writing call tries again.
//
// Thread rule: any thread; calls take their turn behind one lock, and a call that writes returns
// when its data is synced, so a server gives it a thread of its own.
#ifndef MOORING_TALK_STORE_H_
#define MOORING_TALK_STORE_H_

#include <cstdint>
#include <filesystem>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "base/function_ref.h"
#include "base/result.h"
#include "talk/stored.h"

namespace mooring {

struct StoreOptions {
  std::filesystem::path folder;  // made, mode 0700, when it is missing
  // Milliseconds since 1970; unset: the system's clock.
  std::function<int64_t()> now_ms = {};
  std::string vfs = {};  // SQLite's name of the disk to use; empty: its default
};

struct ChainOptions {
  std::optional<BranchId> branch = {};  // unset: the head
  bool tokens = false;                  // with the tokens of each message
};

struct ListOptions {
  size_t limit = 20;       // 1 to 1,000
  std::string after = {};  // id of the last conversation of the page before
};

class Store {
 public:
  static constexpr std::string_view kFileName = "conversations.db";

  // Answers that were in progress when the last process ended are incomplete now.
  static Result<std::unique_ptr<Store>> Open(StoreOptions options);
  Store(const Store&) = delete;
  Store& operator=(const Store&) = delete;
  ~Store();

  // Runs `calls`, which call this store, with one sync for all that they write: an acknowledged
  // call of theirs is durable when this returns without an error, and undone when it returns one.
  // A call that fails on its own undoes only itself. Groups do not nest.
  Status Group(FunctionRef<void()> calls);

  // --- Conversations
  // kUsage when the name is taken.
  Result<ConversationInfo> Create(std::string_view owner, const NewConversation& conversation);
  // By id or by name.
  Result<ConversationInfo> Find(std::string_view owner, std::string_view reference);
  // A name that is not known yet becomes a conversation like `conversation`; an id is found or not.
  Result<ConversationInfo> FindOrCreate(std::string_view owner, std::string_view reference,
                                        NewConversation conversation);
  // Newest change first.
  Result<std::vector<ConversationInfo>> List(std::string_view owner, const ListOptions& options);
  // An empty name takes it away. kUsage when it is taken.
  Status Rename(ConversationKey key, std::string_view name);
  // Changes what is opaque: the model, its identity, the settings of memory.
  Status SetModel(ConversationKey key, std::string_view model, std::string_view identity);
  Status SetSettings(ConversationKey key, std::string_view settings);
  // All of it, overwritten.
  Status Delete(ConversationKey key);
  // All that nobody touched since, of every owner, idle ones only. Returns how many.
  Result<int64_t> DeleteUntouched(int64_t before_ms);

  // --- Turns
  // Keeps the new messages, and the answer as in progress. One answer at a time.
  Result<Acceptance> Accept(ConversationKey key, const TurnStart& start);
  // Keeps the answer and all tokens of its turn. kNotFound unless it is in progress. After another
  // error (a full disk) it may be tried again; until then the conversation stays busy.
  Status Finish(ConversationKey key, const TurnFinish& finish);
  // What became of an idempotency key within a day.
  Result<std::optional<EarlierReply>> FindReply(std::string_view owner,
                                                std::string_view idempotency_key);

  // --- Messages
  // A branch from its first message to its tip, instructions ("system") included.
  Result<std::vector<StoredMessage>> LoadChain(ConversationKey key, const ChainOptions& options);
  // With its tokens.
  Result<StoredMessage> FindMessage(ConversationKey key, std::string_view message);
  // The message of the head's branch that the token at `index` is of, without its tokens.
  Result<StoredMessage> MessageAt(ConversationKey key, LogIndex index);
  // The newest answer that was given as `response_id`.
  Result<MessagePlace> FindResponse(std::string_view owner, std::string_view response_id);
  // The journal of a branch (unset: the head), from a place of its log on, in its order.
  Result<std::vector<MemoryEvent>> LoadEvents(ConversationKey key, std::optional<BranchId> branch,
                                              LogIndex from);
  // Blanks its text, its tokens and replies that hold it, and cuts the journal of every branch
  // through it from there on. Its place in the log stays, empty, and its hash, so that a client
  // that resends it is still known. kUsage for an answer in progress.
  Status Forget(ConversationKey key, std::string_view message);

  // --- Branches
  Result<std::vector<BranchInfo>> Branches(ConversationKey key);
  // The talk goes on behind `message` ("": from the beginning); what followed stays on its branch.
  // kUsage while an answer is in progress.
  Result<BranchInfo> Rewind(ConversationKey key, std::string_view message);
  // Makes another branch the head. kUsage while an answer is in progress.
  Status SwitchTo(ConversationKey key, BranchId branch);
  // A new conversation with a copy of the way to `message`, tokens and journal included. Replies
  // and response ids stay with the old one. kUsage when the name is taken, or for an answer in
  // progress.
  Result<ConversationInfo> Fork(ConversationKey key, std::string_view message,
                                std::string_view name);

  // --- Matching
  // Where the owner's conversations have these two messages in a row (instructions and answers
  // without text apart), newest first, at most 64.
  Result<std::vector<MatchCandidate>> FindCandidates(std::string_view owner,
                                                     const HistoryPair& pair);

  // --- Whole conversations
  Result<ConversationArchive> Export(ConversationKey key);
  // Keeps the archive's id if it is free, else makes a new one; ids of its messages stay. kUsage
  // for an archive that does not hold together, or a name that is taken.
  Result<ConversationInfo> Import(std::string_view owner, const ConversationArchive& archive);

  // --- For who runs it
  Result<StoreCounts> Count();
  // Reads all of it, every checksum and every rule. kModelInvalid with the first fault.
  Status Verify();
  // A copy of everything as it is now, in a file that must not exist yet.
  Status BackUp(const std::filesystem::path& path);

  class Tables;  // for the store's own files

 private:
  explicit Store(std::unique_ptr<Tables> tables);
  std::unique_ptr<Tables> tables_;
};

}  // namespace mooring

#endif  // MOORING_TALK_STORE_H_
