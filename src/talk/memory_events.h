// What the store keeps of a conversation's memory, as bytes: the entries of its plan journal, and
// what a message brought back into view. docs/store.md has the bytes.
//
// Thread rule: pure functions.
#ifndef MOORING_TALK_MEMORY_EVENTS_H_
#define MOORING_TALK_MEMORY_EVENTS_H_

#include <span>
#include <vector>

#include "base/result.h"
#include "engine/plan_journal.h"
#include "talk/stored.h"

namespace mooring {

// A span that stood in the window for a message that asked for it.
struct RecallNote {
  LogIndex message;  // where it begins
  LogRange range;    // where the span was said
  double score = 0;  // RecallHit::score; 0 when another message had found it

  friend bool operator==(const RecallNote&, const RecallNote&) = default;
};

struct MemoryNotes {
  PlanJournal journal;
  std::vector<RecallNote> recalled;
};

MemoryEvent EventOf(const JournalEntry& entry);
MemoryEvent EventOf(const RecallNote& note);
// In the order of the events. kModelInvalid for bytes that no EventOf made.
Result<MemoryNotes> NotesOf(std::span<const MemoryEvent> events);

}  // namespace mooring

#endif  // MOORING_TALK_MEMORY_EVENTS_H_
