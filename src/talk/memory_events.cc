#include "talk/memory_events.h"

#include <fmt/format.h>

#include <cmath>
#include <string>
#include <utility>

#include "talk/byte_stream.h"

namespace mooring {
namespace {

enum class Kind : uint8_t { kPlanBeforeMessage, kPlanBehindAnchors, kRecalled, kVector };

MemoryEvent Start(Kind kind, LogIndex at, const LogRange& range) {
  MemoryEvent event = {.at = at, .bytes = {}};
  ByteWriter writer(&event.bytes);
  writer.Number(static_cast<uint8_t>(kind));
  writer.Varint(static_cast<uint64_t>(range.from.value));
  writer.Varint(static_cast<uint64_t>(range.tokens()));
  return event;
}

}  // namespace

MemoryEvent EventOf(const JournalEntry& entry) {
  return Start(entry.found.behind_anchors ? Kind::kPlanBehindAnchors : Kind::kPlanBeforeMessage,
               entry.message, entry.found.range);
}

MemoryEvent EventOf(const RecallNote& note) {
  MemoryEvent event = Start(Kind::kRecalled, note.message, note.range);
  ByteWriter(&event.bytes).Number(note.score);
  return event;
}

MemoryEvent EventOf(LogIndex message, const SpanVector& vector) {
  MemoryEvent event = Start(Kind::kVector, message, vector.range);
  ByteWriter writer(&event.bytes);
  writer.Number(vector.encoder);
  writer.Text({reinterpret_cast<const char*>(vector.row.data()), vector.row.size()});
  return event;
}

Result<MemoryNotes> NotesOf(std::span<const MemoryEvent> events) {
  MemoryNotes notes;
  for (const MemoryEvent& event : events) {
    ByteReader reader(event.bytes);
    const auto kind = static_cast<Kind>(reader.Number<uint8_t>());
    const uint64_t from = reader.Varint();
    const uint64_t tokens = reader.Varint();
    const double score = kind == Kind::kRecalled ? reader.Number<double>() : 0.0;
    SpanVector vector;
    if (kind == Kind::kVector) {
      vector.encoder = reader.Number<uint64_t>();
      const std::string row = reader.Text();
      vector.row.assign(row.begin(), row.end());
    }
    constexpr uint64_t kMost = uint64_t{1} << 62;
    if (!reader.complete() || kind > Kind::kVector || from >= kMost || tokens >= kMost ||
        !std::isfinite(score)) {
      return Error{.kind = ErrorKind::kModelInvalid,
                   .what = "the store is damaged",
                   .where = fmt::format("an event of memory at token {}", event.at.value),
                   .expected = "a plan, what it brought back, or a vector"};
    }
    const LogIndex first = {static_cast<int64_t>(from)};
    const LogRange range = {first, first + static_cast<int64_t>(tokens)};
    if (kind == Kind::kVector) {
      vector.range = range;
      notes.vectors.push_back(std::move(vector));
    } else if (kind == Kind::kRecalled) {
      notes.recalled.push_back({event.at, range, score});
    } else {
      notes.journal.push_back({event.at, {range, kind == Kind::kPlanBehindAnchors}});
    }
  }
  return notes;
}

}  // namespace mooring
