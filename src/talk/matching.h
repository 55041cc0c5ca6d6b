// Where a request's messages stand in a conversation that is kept: the rules for clients that
// resend their history (docs/store.md). Texts are compared; hashes only find candidates, and stand
// for texts that were forgotten.
//
// Messages of the roles "system" and "developer" take no part in any alignment: they are
// instructions, and all of a request's are one text. Answers without text take no part either:
// many a client does not send them.
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

// What the store's index is asked for: two messages of an owner's that follow each other.
MessageHash HashPair(std::string_view owner, const MessageHash& previous, const MessageHash& last);

// "system" or "developer".
bool IsInstruction(std::string_view role);

// Borrowed: the texts outlive the call that gets them.
struct ChainMessage {
  std::string_view role;
  std::string_view text;   // as it was kept; empty when it was forgotten
  MessageHash hash;        // of the text as it was said
  bool forgotten = false;  // only the hash is left to compare
};

// Whether a message is looked at when histories are aligned.
bool TakesPart(std::string_view role, std::string_view text);
bool TakesPart(const ChainMessage& message);

struct RequestMessage {
  std::string role;
  std::string text;
};

// A client that sends no name is known by the last two messages before the new ones.
struct HistoryPair {
  MessageHash previous;
  MessageHash last;
  friend bool operator==(const HistoryPair&, const HistoryPair&) = default;
};

// The messages of a request, ready to be compared with many chains. Borrows nothing.
class RequestHistory {
 public:
  // A message that takes part.
  struct Part {
    size_t index = 0;  // in the request
    bool answer = false;
    std::string text;  // normal
    MessageHash hash;
  };

  explicit RequestHistory(std::span<const RequestMessage> request);

  const std::vector<Part>& parts() const { return parts_; }
  size_t request_size() const { return request_size_; }
  // All instructions of the request as one text, joined by blank lines; unset when it has none.
  const std::optional<std::string>& instructions() const { return instructions_; }
  // Without an answer AlignRequest gives kNew for any chain, so that none need be loaded.
  bool has_answer() const;
  // How many parts may be the history, the rest being new: all but the last, and those up to the
  // last answer, where they differ and could be accepted. Longest first.
  std::vector<size_t> HistoryLengths() const;
  // The ends of these histories: what to look up.
  std::vector<HistoryPair> Pairs() const;

 private:
  std::vector<Part> parts_;
  size_t request_size_ = 0;
  std::optional<std::string> instructions_;
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
  // instructions and answers without text. All of them but for a fork, which may keep none.
  size_t kept = 0;
  // The first message of the request that is new; its size if none is. Instructions from there on
  // are left out: they are in `instructions`.
  size_t first_new = 0;
  size_t run = 0;  // parts of the request that were found in the chain
  // Set when the request's instructions are others than those that hold where the new messages
  // begin.
  std::optional<std::string> instructions = {};

  friend bool operator==(const MatchVerdict&, const MatchVerdict&) = default;
};

// For a request that names its conversation. `chain` is the branch at its head, oldest first;
// `current` is the hash of the instructions that hold at its end, unset when there are none.
//
// The longest run of the request's first messages in the chain decides; of equals one that ends
// with the chain, then the one nearest to its beginning. A run counts with an answer in it, or, if
// the request has one elsewhere that is kept, from the chain's beginning on.
MatchVerdict AlignRequest(std::span<const ChainMessage> chain, const RequestHistory& request,
                          const std::optional<MessageHash>& current);

// For a request without a name: whether `chain`, a branch through a candidate, has the request's
// whole history as one run, with an answer of at least 16 characters (code points of the normal
// text) in it. kNew with nothing kept if not. A run that ends with the chain counts more than
// others, then the longest, then the newest. What the run holds beyond the history is kept too.
MatchVerdict MatchHistory(std::span<const ChainMessage> chain, const RequestHistory& request,
                          const std::optional<MessageHash>& current);

}  // namespace mooring

#endif  // MOORING_TALK_MATCHING_H_
