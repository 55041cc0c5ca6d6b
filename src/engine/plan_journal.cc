#include "engine/plan_journal.h"

#include <fmt/format.h>

namespace mooring {

Status CheckJournal(const PlanJournal& journal, LogIndex log_end) {
  LogIndex latest = {0};
  int of_message = 0;
  for (size_t i = 0; i < journal.size(); ++i) {
    const auto& [message, found] = journal[i];
    of_message = i > 0 && message == latest ? of_message + 1 : 1;
    const LogRange& range = found.range;
    if (message < latest || message > log_end || range.from.value < 0 || range.tokens() < 0 ||
        range.to > message || of_message > kMaxRecalledSpans) {
      return Error{
          .kind = ErrorKind::kUsage,
          .what = "the journal is not one of this log",
          .where = fmt::format("journal entry {}", i),
          .expected = fmt::format("a span before its message, in order, at most {} each",
                                  kMaxRecalledSpans),
          .found = fmt::format("{} to {} for {}", range.from.value, range.to.value, message.value)};
    }
    latest = message;
  }
  return {};
}

}  // namespace mooring
