// What the store keeps of conversations, as plain values.
//
// A conversation is a tree of messages. A branch is the path from a first message to its tip; one
// branch is the head, where the talk goes on. A message's tokens are [from, to) of the log of every
// branch through it; along a branch the ranges follow each other without a gap, from 0 on.
//
// Thread rule: plain values.
#ifndef MOORING_TALK_STORED_H_
#define MOORING_TALK_STORED_H_

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "engine/token_log.h"
#include "talk/matching.h"

namespace mooring {

// Numbers of branches are the store's own and never used again.
using BranchId = int64_t;

// Whose conversation. Every look-up is by both; another owner's is as unknown as one that never
// was. `id` is a conversation's id, not its name.
struct ConversationKey {
  std::string_view owner;  // opaque, 1 to 256 bytes: a hash of an API key, "local"
  std::string_view id;
};

struct LogTokens {
  std::vector<TokenId> ids;     // exactly as read or sampled; each in [0, TokenLog::kMaxToken]
  std::vector<bool> generated;  // as many
  friend bool operator==(const LogTokens&, const LogTokens&) = default;
};

enum class MessageState : uint8_t {
  kInProgress,  // an answer that is being generated
  kComplete,
  kIncomplete,  // an answer that was stopped, or cut off by the end of the process
};

struct StoredMessage {
  std::string id = {};  // "msg_..."
  std::string role = {};
  std::string text = {};  // any bytes; empty when forgotten
  MessageState state = MessageState::kComplete;
  bool forgotten = false;
  MessageHash hash = {};  // of the text as it was said, also when it is forgotten
  int64_t turn = 0;       // messages of the user up to here
  LogIndex from = {};
  LogIndex to = {};       // of a forgotten message too: the places stay empty
  LogTokens tokens = {};  // empty unless asked for, and when forgotten
  int64_t created_ms = 0;
  // Of answers, as the caller gave them.
  std::string response_id = {};
  std::string finish_reason = {};
  std::string sampling = {};  // settings as JSON
  std::optional<uint64_t> seed = {};

  friend bool operator==(const StoredMessage&, const StoredMessage&) = default;
};

// What memory did for a message (talk/memory_events.h), opaque.
struct MemoryEvent {
  LogIndex at = {};  // where the message begins
  std::string bytes;
  friend bool operator==(const MemoryEvent&, const MemoryEvent&) = default;
};

// What a conversation is made with. All opaque to the store.
struct NewConversation {
  std::string name = {};                   // empty: it has only its id
  std::string model = {};                  // for people
  std::string identity = {};               // what its tokens and pages must match
  std::string settings = {};               // of memory: policy, window, recall
  std::optional<std::string> system = {};  // none: the template's default; empty: none at all
};

struct ConversationInfo {
  std::string id;  // "conv_..."
  std::string name;
  std::string model;
  std::string identity;
  std::string settings;
  int64_t created_ms = 0;  // since 1970, UTC
  int64_t updated_ms = 0;  // the last turn or change
  // Of the branch at the head.
  BranchId branch = 0;
  std::string tip;                         // its last message; empty when nothing was said
  std::optional<std::string> system;       // the instructions that hold there
  std::optional<MessageHash> system_hash;  // theirs, also when they were forgotten
  int64_t turns = 0;                       // messages of the user
  int64_t messages = 0;                    // instructions included
  LogIndex log_end = {};
  bool busy = false;  // an answer is being generated
};

struct BranchInfo {
  BranchId id = 0;
  std::string tip;  // empty: it holds nothing
  int64_t turns = 0;
  LogIndex log_end = {};
  int64_t created_ms = 0;
  bool head = false;
};

struct NewMessage {
  std::string role;
  std::string text;
};

// A turn as it begins: new messages, and the answer they wait for.
struct TurnStart {
  // The message that the new ones follow: unset for the head's tip, "" for the beginning. Where no
  // branch ends, a new one begins; in any case it becomes the head.
  std::optional<std::string> after = {};
  std::optional<int64_t> if_turn = {};     // refused unless the head has so many turns
  std::optional<std::string> system = {};  // new instructions, said before the new messages
  std::vector<NewMessage> messages = {};
  bool answer = true;  // false: the messages are kept, and nothing is awaited
  std::string response_id = {};
  std::string sampling = {};
  std::optional<uint64_t> seed = {};
  // Unset: none. Within a day the same key of the same owner gives the same answer.
  std::string idempotency_key = {};
  std::string request_digest = {};  // tells another request under the same key
};

struct AcceptedTurn {
  BranchId branch = 0;
  bool forked = false;  // the branch began with this turn
  int64_t turn = 0;
  LogIndex log_from = {};             // where its first token will stand
  std::string instructions = {};      // id of the message that keeps them, if there were new ones
  std::vector<std::string> messages;  // ids, in the order of TurnStart
  std::string answer = {};            // id; empty unless one is awaited
};

// What became of a request under an idempotency key.
struct EarlierReply {
  std::string conversation;
  std::string answer;  // the message's id
  MessageState state = MessageState::kInProgress;
  std::string request_digest;
  std::string reply;  // the bytes that TurnFinish gave; empty until then
};

enum class AcceptKind : uint8_t {
  kAccepted,
  kBusy,      // the conversation has an answer in progress
  kChanged,   // if_turn is not the head's count any more
  kRepeated,  // the idempotency key was used within a day: `earlier` says for what
};

struct Acceptance {
  AcceptKind kind = AcceptKind::kAccepted;
  AcceptedTurn turn = {};                    // kAccepted
  int64_t turns = 0;                         // kChanged: the head's count now
  std::optional<EarlierReply> earlier = {};  // kRepeated
};

// Tokens that were read for one message of the turn.
struct ReadTokens {
  std::string message;  // its id
  LogTokens tokens;
};

// A turn as it ends.
struct TurnFinish {
  std::string answer;  // the id that Accept gave
  std::string text = {};
  bool complete = true;  // false: it was stopped early, and says so for ever
  std::string finish_reason = {};
  std::vector<ReadTokens> read = {};     // of messages of this turn; what is left out read none
  LogTokens tokens = {};                 // of the answer
  std::vector<MemoryEvent> events = {};  // of messages of this turn: each where its tokens begin
  std::string reply = {};                // kept under the turn's idempotency key
};

struct MessagePlace {
  std::string conversation;
  std::string message;
};

// A place where two messages in a row were found in the index.
struct MatchCandidate {
  std::string conversation;
  BranchId branch = 0;  // one that goes through it: where it was first said
  std::string message;  // the second of the two
};

// A conversation whole, all branches, to be kept or moved elsewhere.
struct ArchivedMessage {
  std::optional<size_t> parent = {};  // index among the messages; always smaller than its own
  StoredMessage message = {};
  std::vector<MemoryEvent> events = {};
};
struct ArchivedBranch {
  std::optional<size_t> tip = {};  // index among the messages
  int64_t created_ms = 0;
};
struct ConversationArchive {
  ConversationInfo info;  // id and name are wishes when it is imported
  std::vector<ArchivedMessage> messages;
  std::vector<ArchivedBranch> branches;  // at least one
  size_t head = 0;                       // index among the branches
};

struct StoreCounts {
  int64_t conversations = 0;
  int64_t branches = 0;
  int64_t messages = 0;
  int64_t file_bytes = 0;  // of the database
  int64_t log_bytes = 0;   // of its write-ahead log
};

}  // namespace mooring

#endif  // MOORING_TALK_STORED_H_
