// What a conversation remembers, in numbers, as a picture of one line, and as JSON.
//
// Thread rule: pure functions of their arguments.
#ifndef MOORING_APPS_MEMORY_VIEW_H_
#define MOORING_APPS_MEMORY_VIEW_H_

#include <cstdint>
#include <string>
#include <vector>

#include "apps/output.h"
#include "engine/conversation.h"

namespace mooring {

struct MemoryView {
  int64_t log_tokens = 0;  // everything ever said
  int64_t capacity = 0;
  int64_t anchors = 0;                  // first tokens that are attended to, and
  int64_t recent = 0;                   // last ones
  std::vector<LogRange> recalled = {};  // what a question called back

  int64_t recalled_tokens() const;
  int64_t remembered() const { return anchors + recent + recalled_tokens(); }
  int64_t forgotten() const { return log_tokens - remembered(); }
};

MemoryView ViewOf(const Conversation& conversation);

// {"capacity", "anchors", "recalled", "recent"}, as in every reply.
Json WindowJson(const MemoryView& view);

struct StripStyle {
  int cells = 20;  // of the terminal, brackets apart
  bool color = false;
  bool unicode = true;
};

// The log from its start to its end: anchors, what is out of sight, in it what was called back, and
// what is recent. Each that there is has one cell at least. "[#...*..====]"
std::string MemoryStrip(const MemoryView& view, const StripStyle& style);

// "Remembers 1,024 of 41,233 tokens: 32 anchors, 60 called back, 932 recent; 40,209 out of sight".
std::string MemorySentence(const MemoryView& view);

}  // namespace mooring

#endif  // MOORING_APPS_MEMORY_VIEW_H_
