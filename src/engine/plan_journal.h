// What was found for the messages of a conversation. With the log it is all that the numbers of a
// row depend on: a run can be repeated from both, without the search (Engine::OpenLog).
//
// Thread rule: plain values.
#ifndef MOORING_ENGINE_PLAN_JOURNAL_H_
#define MOORING_ENGINE_PLAN_JOURNAL_H_

#include <vector>

#include "base/result.h"
#include "memory/policy.h"

namespace mooring {

struct JournalEntry {
  LogIndex message;  // where it begins
  // One of the spans that were found for it. Empty: nothing was, and what stood in the window grew
  // older by this message.
  OfferedSpan found;

  friend bool operator==(const JournalEntry&, const JournalEntry&) = default;
};

// In the order of the messages; those of one message from the worst to the best.
using PlanJournal = std::vector<JournalEntry>;

// kUsage for one that no conversation with such a log can have: its messages lie in the log, in
// order, each with at most kMaxRecalledSpans spans that were said before it.
Status CheckJournal(const PlanJournal& journal, LogIndex log_end);

}  // namespace mooring

#endif  // MOORING_ENGINE_PLAN_JOURNAL_H_
