#include <array>
#include <string>

#include "memory/policy.h"
#include "tensor/kv_view.h"

namespace mooring {
namespace {

// Everything stays; a full window is an answer. For comparison and short jobs.
class Dense : public Policy {
 public:
  Plan Propose(const WindowFacts& /*facts*/, Arena& /*arena*/) const override { return {}; }
  int64_t RoomFor(const WindowFacts& facts) const override {
    return facts.shape.capacity - facts.next.value;
  }
};

// Anchors and the most recent tokens: exact StreamingLLM (Xiao et al. 2023). Pages behind the
// anchors go, oldest first, once the next row cannot see their last slot any more.
class Sinks : public Policy {
 public:
  Plan Propose(const WindowFacts& facts, Arena& arena) const override {
    const LogIndex oldest_kept = facts.next - (facts.shape.recent() + kRewindSlots);
    size_t count = 0;
    while (count < facts.pages.size() && facts.pages[count].used == kPageSlots &&
           facts.pages[count].first + (kPageSlots - 1) < oldest_kept) {
      ++count;
    }
    const std::span<PageDrop> drop = arena.Make<PageDrop>(count);
    for (size_t i = 0; i < count; ++i) drop[i] = {kEveryHead, static_cast<uint32_t>(i)};
    return {drop};
  }
  int64_t RoomFor(const WindowFacts& /*facts*/) const override { return INT64_MAX; }
};

const Dense kDense;
const Sinks kSinks;

constexpr std::array<PolicyEntry, 2> kPolicies = {{
    {"sinks", "anchors and the most recent tokens: never ends", &kSinks},
    {"dense", "everything, until the window is full: for comparison", &kDense},
}};

}  // namespace

std::span<const PolicyEntry> Policies() { return kPolicies; }

Result<const Policy*> FindPolicy(std::string_view name) {
  std::string known;
  for (const PolicyEntry& entry : kPolicies) {
    if (entry.name == name) return entry.policy;
    if (!known.empty()) known += ", ";
    known += entry.name;
  }
  return Error{.kind = ErrorKind::kUsage,
               .what = "unknown memory policy",
               .where = "policy",
               .expected = "one of " + known,
               .found = std::string(name)};
}

}  // namespace mooring
