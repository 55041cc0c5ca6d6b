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

  // R: how far back a row sees beyond the anchors.
  int32_t recent() const { return capacity - anchors - 1; }
};

// One page behind the anchors, the same for every head under the policies that use it.
struct PageFacts {
  LogIndex first;     // log index of slot 0
  uint16_t used = 0;  // slots filled
};

struct WindowFacts {
  WindowShape shape;
  LogIndex next;                     // the token that will be read first in the coming step
  std::span<const PageFacts> pages;  // oldest first, anchors apart
};

inline constexpr int32_t kEveryHead = -1;

struct PageDrop {
  int32_t head = kEveryHead;  // layer * kv heads + kv head, or kEveryHead
  uint32_t page = 0;          // index into WindowFacts::pages
};

// Sorted by (head, page). The arrays live in the arena that Propose was given.
struct Plan {
  std::span<const PageDrop> drop;
};

// A page stays until this many more tokens have passed it, so that a reply that is cut at a stop
// string can take back its last tokens and every row still finds what it may see.
inline constexpr int32_t kRewindSlots = 16;

class Policy {
 public:
  virtual ~Policy() = default;
  // What to change before the step whose first row is `facts.next`.
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
