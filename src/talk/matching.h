// Where a request's messages stand in a conversation that is kept: the rules for clients that
// resend their history (docs/store.md). Texts are compared; hashes only find candidates, and stand
// for texts that were forgotten.
//
// Messages of the roles "system" and "developer" take no part in any alignment: they are
// instructions, and all of a request's are one text. Answers of which no text was kept take no part
// either: no client can have them.
//
// Thread rule: pure functions.
#ifndef MOORING_TALK_MATCHING_H_
#define MOORING_TALK_MATCHING_H_

#include <array>
#include <compare>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace mooring {

// The first half of a SHA-256.
struct MessageHash {
  std::array<uint8_t, 16> bytes = {};
  friend auto operator<=>(const MessageHash&, const MessageHash&) = default;
};

// What two spellings of one message have in common: line ends as LF, whole <think>...</think>
// blocks of an "assistant" message cut, then blanks cut at both ends.
std::string NormalText(std::string_view role, std::string_view text);

// Of the role and the normal text. "developer" is "system".
MessageHash HashMessage(std::string_view role, std::string_view text);

// What the store's index is asked for: two messages in a row of one owner's.
MessageHash HashPair(std::string_view owner, const MessageHash& previous, const MessageHash& last);

bool IsInstruction(std::string_view role);

// Borrowed: the texts outlive the call that gets them.
struct ChainMessage {
  std::string_view role;
  std::string_view text;   // as it was kept; empty when it was forgotten
  MessageHash hash;        // of the text as it was said
  bool forgotten = false;  // only the hash is left to compare
};

struct RequestMessage {
  std::string_view role;
  std::string_view text;
};

enum class MatchKind : uint8_t {
  kNew,     // nothing of the request is kept: all of it is said now
  kExact,   // it begins with the whole chain
  kSuffix,  // it begins with the chain's end: the client dropped its oldest messages
  kFork,    // it agrees with the chain and then differs, or ends before it does
};

struct MatchVerdict {
  MatchKind kind = MatchKind::kNew;
  // How many messages of the chain, from its first on, stay in front of what is new; they include
  // instructions and answers without text in between. kNew keeps them all; a fork may keep none.
  size_t kept = 0;
  // The first message of the request that is new; its size if none is. From there on, instructions
  // are still to be left out: they are in `instructions`.
  size_t first_new = 0;
  // Messages of the request, instructions apart, that were found in the chain.
  size_t run = 0;
  // Set when the request's instructions differ from the current ones: they hold from the new turn
  // on.
  std::optional<std::string> instructions = {};

  friend bool operator==(const MatchVerdict&, const MatchVerdict&) = default;
};

// All instructions of a request as one text, joined by blank lines; nothing when it has none.
std::optional<std::string> Instructions(std::span<const RequestMessage> request);

// For a request that names its conversation: `chain` is the branch at its head, oldest first,
// `instructions` what holds there. A request without any answer that is kept is new as a whole, so
// the chain of a plain stateful call need not be loaded (see HasAnswer).
MatchVerdict AlignRequest(std::span<const ChainMessage> chain,
                          std::span<const RequestMessage> request,
                          const std::optional<std::string>& instructions);

// Whether an "assistant" message is in the request: else AlignRequest gives kNew for any chain.
bool HasAnswer(std::span<const RequestMessage> request);

// A client that sends no name is known by the last two messages before the new ones.
struct HistoryPair {
  MessageHash previous;
  MessageHash last;
};

// The pairs to look up, the one with the longest history first: that of all messages but the last,
// and that up to the last answer, where they differ. Empty when no history could be accepted.
std::vector<HistoryPair> HistoryPairs(std::span<const RequestMessage> request);

// For a request without a name: whether `chain`, a branch through a candidate, has the request's
// whole history as one run, with an answer of at least 16 characters (code points of the normal
// text) in it. kNew if not; kExact and kSuffix when the run ends with the chain, else kFork. Where
// one history is found twice, a run to the end counts, then the newest.
MatchVerdict MatchHistory(std::span<const ChainMessage> chain,
                          std::span<const RequestMessage> request,
                          const std::optional<std::string>& instructions);

}  // namespace mooring

#endif  // MOORING_TALK_MATCHING_H_
