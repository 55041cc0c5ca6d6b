#include <algorithm>
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

// The oldest pages, up to the first that is not wholly before `oldest_kept`. The newest stays while
// it is not full.
std::span<const PageDrop> DropBefore(const WindowFacts& facts, LogIndex oldest_kept, Arena& arena) {
  const std::span<PageDrop> drop = arena.Make<PageDrop>(facts.pages.size());
  size_t newest = facts.pages.size();
  while (newest > 0 && facts.pages[newest - 1].span != kNoSpan) --newest;
  size_t count = 0;
  for (size_t i = 0; i < newest; ++i) {
    const PageFacts& page = facts.pages[i];
    if (page.span != kNoSpan) continue;
    const bool open = i + 1 == newest && page.used < kPageSlots;
    if (open || page.first + page.used > oldest_kept) break;
    drop[count++] = {kEveryHead, static_cast<uint32_t>(i)};
  }
  return drop.first(count);
}

// Anchors and the most recent tokens: exact StreamingLLM (Xiao et al. 2023). Pages behind the
// anchors go, oldest first, once the next row cannot see their last slot any more.
class Sinks : public Policy {
 public:
  Plan Propose(const WindowFacts& facts, Arena& arena) const override {
    return {.drop = DropBefore(facts, facts.seen_from - kRewindSlots, arena)};
  }
  int64_t RoomFor(const WindowFacts& /*facts*/) const override { return INT64_MAX; }
};

// As Sinks, and the spans that were found for a message stand in the window while it is answered
// and while the next one is. The recent tokens make room for them.
class Recall : public Policy {
 public:
  Plan Propose(const WindowFacts& facts, Arena& arena) const override {
    Plan plan;
    if (facts.message_start) ChooseSpans(facts, arena, &plan);
    LogIndex oldest_kept = facts.seen_from - kRewindSlots;
    if (plan.changes_spans()) {
      // Nothing is taken back beyond such a plan, so what the next row does not see can go at once.
      oldest_kept =
          std::max(facts.seen_from, facts.next - (facts.shape.recent() - SlotsAfter(facts, plan)));
      if (ClosesPage(facts, plan)) oldest_kept = std::max(oldest_kept, EndOfShortPages(facts));
    }
    plan.drop = DropBefore(facts, oldest_kept, arena);
    return plan;
  }
  int64_t RoomFor(const WindowFacts& /*facts*/) const override { return INT64_MAX; }

 private:
  // A span stays for the message that asked for it and for this many more.
  static constexpr int32_t kMessagesMore = 1;

  static bool Asked(const WindowFacts& facts, const RecalledSpan& held) {
    return std::ranges::any_of(facts.offered, [&held](const OfferedSpan& offered) {
      return offered.range.Overlaps(held.range);
    });
  }
  static bool Held(const WindowFacts& facts, const OfferedSpan& offered) {
    return std::ranges::any_of(facts.recalled, [&offered](const RecalledSpan& held) {
      return offered.range.Overlaps(held.range);
    });
  }

  // The best of the new spans that there is room for beside those that are asked for again; what
  // nobody asks for any more stays for its time where there is room left.
  static void ChooseSpans(const WindowFacts& facts, Arena& arena, Plan* plan) {
    const std::span<uint32_t> release = arena.Make<uint32_t>(facts.recalled.size());
    const std::span<uint32_t> refresh = arena.Make<uint32_t>(facts.recalled.size());
    const std::span<OfferedSpan> recall = arena.Make<OfferedSpan>(kMaxRecalledSpans);
    size_t refreshed = 0;
    size_t held = 0;
    int64_t slots = 0;
    const auto fits = [&](const LogRange& range) {
      return held < recall.size() && slots + range.tokens() <= facts.shape.recalled;
    };
    const auto hold = [&](const LogRange& range) {
      slots += range.tokens();
      ++held;
    };
    for (uint32_t i = 0; i < facts.recalled.size(); ++i) {
      if (!Asked(facts, facts.recalled[i])) continue;
      refresh[refreshed++] = i;
      hold(facts.recalled[i].range);
    }
    size_t count = 0;
    for (size_t i = facts.offered.size(); i > 0; --i) {
      const OfferedSpan& offered = facts.offered[i - 1];
      if (Held(facts, offered) || !fits(offered.range)) continue;
      recall[count++] = offered;
      hold(offered.range);
    }
    std::ranges::reverse(recall.first(count));
    size_t released = 0;
    for (uint32_t i = 0; i < facts.recalled.size(); ++i) {
      const RecalledSpan& span = facts.recalled[i];
      if (Asked(facts, span)) continue;
      if (span.messages < kMessagesMore && fits(span.range)) {
        hold(span.range);
      } else {
        release[released++] = i;
      }
    }
    plan->release = release.first(released);
    plan->refresh = refresh.first(refreshed);
    plan->recall = recall.first(count);
  }

  static int32_t SlotsAfter(const WindowFacts& facts, const Plan& plan) {
    int64_t slots = 0;
    for (const RecalledSpan& held : facts.recalled) slots += held.range.tokens();
    for (const uint32_t i : plan.release) slots -= facts.recalled[i].range.tokens();
    for (const OfferedSpan& span : plan.recall) slots += span.range.tokens();
    return static_cast<int32_t>(slots);
  }

  // Whether a span lands behind a page that is not full.
  static bool ClosesPage(const WindowFacts& facts, const Plan& plan) {
    return !facts.pages.empty() && facts.pages.back().used < kPageSlots &&
           std::ranges::any_of(plan.recall,
                               [](const OfferedSpan& span) { return !span.behind_anchors; });
  }
  // Where the pages end that must go for one more short page, or nowhere.
  static LogIndex EndOfShortPages(const WindowFacts& facts) {
    int surplus = -kMaxShortPages;
    for (const PageFacts& page : facts.pages) {
      if (page.span == kNoSpan && page.used < kPageSlots) ++surplus;
    }
    LogIndex end = {0};
    for (const PageFacts& page : facts.pages) {
      if (surplus <= 0) break;
      if (page.span != kNoSpan || page.used == kPageSlots) continue;
      end = page.first + page.used;
      --surplus;
    }
    return end;
  }
};

const Dense kDense;
const Sinks kSinks;
const Recall kRecall;

constexpr std::array<PolicyEntry, 3> kPolicies = {{
    {"recall", "as sinks, and what was said about it comes back with a question", &kRecall},
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
