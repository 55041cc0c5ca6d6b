// What to keep in front of the model: a policy looks at facts and proposes a plan. It is a pure
// function that touches nothing; Window alone applies plans.
//
// Thread rule: policies are constants; any thread may ask.
#ifndef MOORING_MEMORY_POLICY_H_
#define MOORING_MEMORY_POLICY_H_

#include <cstdint>
#include <span>
#include <string_view>
#include <vector>

#include "base/arena.h"
#include "base/result.h"
#include "tensor/position.h"

namespace mooring {

// The sizes of a window, fixed for the life of a conversation.
struct WindowShape {
  int32_t capacity = 0;         // W: tokens a row attends to at most, anchors and itself counted
  int32_t anchors = 0;          // S: first tokens that always stay
  bool expire_by_page = false;  // false: tokens leave one by one; true: whole pages at a time
  int32_t recalled = 0;  // of W, what spans that are called back may take; taken from the recent

  // R: how far back a row sees beyond the anchors, spans that were called back counted.
  int32_t recent() const { return capacity - anchors - 1; }
};

// Most spans that may be called back into a window at the same time.
inline constexpr int kMaxRecalledSpans = 8;
// A span that lands right before a message closes the page that was being filled. Most such pages,
// not full and never filled further, that a window holds.
inline constexpr int kMaxShortPages = 16;

// A span of the log that stands in the window again: it was read once more, behind the anchors
// alone, so that its pages are the same whenever and for whatever they are made.
struct RecalledSpan {
  LogRange range;               // where it was said
  LogIndex landed;              // the start of the message that it came with
  bool behind_anchors = false;  // where it stands: there, or right before that message
  int32_t messages = 0;         // that began since it was last asked for
};

// A span that was found for the message that is about to be read.
struct OfferedSpan {
  LogRange range;
  bool behind_anchors = false;  // better there, out of the way: the search is not sure

  friend bool operator==(const OfferedSpan&, const OfferedSpan&) = default;
};

inline constexpr int16_t kNoSpan = -1;

// One page behind the anchors, the same for every head under the policies that use it.
struct PageFacts {
  LogIndex first;          // log index of slot 0
  uint16_t used = 0;       // slots filled
  int16_t span = kNoSpan;  // of a page that was called back: index into WindowFacts::recalled
};

struct WindowFacts {
  WindowShape shape;
  LogIndex next;                     // the token that will be read first in the coming step
  std::span<const PageFacts> pages;  // in the order of the window, anchors apart
  LogIndex seen_from;                // first token behind the anchors that the row at `next` sees
  std::span<const RecalledSpan> recalled = {};
  bool message_start = false;                 // a message of the user begins at `next`, and these
  std::span<const OfferedSpan> offered = {};  // were found for it, from the worst to the best
};

inline constexpr int32_t kEveryHead = -1;

struct PageDrop {
  int32_t head = kEveryHead;  // layer * kv heads + kv head, or kEveryHead
  uint32_t page = 0;          // index into WindowFacts::pages
};

// The arrays live in the arena that Propose was given. A plan for the start of a message lists what
// happens to every span; any other lists none.
struct Plan {
  std::span<const PageDrop> drop = {};       // sorted by (head, page)
  std::span<const uint32_t> release = {};    // indices into WindowFacts::recalled, ascending
  std::span<const uint32_t> refresh = {};    // the same: spans that were asked for again
  std::span<const OfferedSpan> recall = {};  // to be read again, from the worst to the best

  bool changes_spans() const { return !release.empty() || !recall.empty(); }
};

// What Propose takes of its arena at most, in bytes, for a window of at most `pages` pages.
inline constexpr size_t PlanBytes(size_t pages) {
  return pages * sizeof(PageDrop) +
         size_t{kMaxRecalledSpans} * (2 * sizeof(uint32_t) + sizeof(OfferedSpan)) + 64;
}

// A page stays until this many more tokens have passed it, so that a reply that is cut at a stop
// string can take back its last tokens and every row still finds what it may see.
inline constexpr int32_t kRewindSlots = 16;

class Policy {
 public:
  virtual ~Policy() = default;
  // What to change before the step whose first row is `facts.next`. Asked twice about the same
  // facts it says the same: spans are read again between the question and its answer's use.
  virtual Plan Propose(const WindowFacts& facts, Arena& arena) const = 0;
  // How many tokens may still be read: INT64_MAX for a conversation that never ends.
  virtual int64_t RoomFor(const WindowFacts& facts) const = 0;
};

struct PolicyEntry {
  std::string_view name;
  std::string_view help;
  const Policy* policy;
};

// Every policy there is, in the order in which help lists them (memory/policies.cc).
std::span<const PolicyEntry> Policies();

// kUsage naming the known ones when there is no policy of that name.
Result<const Policy*> FindPolicy(std::string_view name);

}  // namespace mooring

#endif  // MOORING_MEMORY_POLICY_H_
