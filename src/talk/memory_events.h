// What the store keeps of a conversation's memory, as bytes: the entries of its plan journal, what
// a message brought back into view, and the vectors of what was said. docs/store.md has the bytes.
//
// Thread rule: pure functions.
#ifndef MOORING_TALK_MEMORY_EVENTS_H_
#define MOORING_TALK_MEMORY_EVENTS_H_

#include <span>
#include <vector>

#include "base/result.h"
#include "engine/plan_journal.h"
#include "talk/long_memory.h"
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
  std::vector<SpanVector> vectors;
};

MemoryEvent EventOf(const JournalEntry& entry);
MemoryEvent EventOf(const RecallNote& note);
// Of the message at `message`, which ended the round of the span.
MemoryEvent EventOf(LogIndex message, const SpanVector& vector);
// In the order of the events. kModelInvalid for bytes that no EventOf made.
Result<MemoryNotes> NotesOf(std::span<const MemoryEvent> events);

}  // namespace mooring

#endif  // MOORING_TALK_MEMORY_EVENTS_H_
