// What was found for the messages of a conversation. With the log it is all that the numbers of a
// row depend on: a run can be repeated from both, without the search.
//
// Thread rule: plain values.
#ifndef MOORING_ENGINE_PLAN_JOURNAL_H_
#define MOORING_ENGINE_PLAN_JOURNAL_H_

#include <vector>

#include "memory/policy.h"

namespace mooring {

struct JournalEntry {
  LogIndex message;   // where it begins
  OfferedSpan found;  // one of the spans that were found for it

  friend bool operator==(const JournalEntry&, const JournalEntry&) = default;
};

// In the order of the messages; those of one message from the worst to the best.
using PlanJournal = std::vector<JournalEntry>;

}  // namespace mooring

#endif  // MOORING_ENGINE_PLAN_JOURNAL_H_
