#include <fmt/format.h>
#include <xxhash.h>

#include <utility>

#include "base/checked.h"
#include "talk/recall.h"

namespace mooring {
namespace {

// Layout: header {magic[4], u32 version, u64 bytes in all, u64 vocabulary, u32 vector items,
// u32 spans, u32 posting lists, u32 zero}; the spans; the vectors of those that have one; the
// lists; u64 xxh3 of everything before.
constexpr std::string_view kMagic = "MIDX";
constexpr uint32_t kVersion = 1;
constexpr uint64_t kHeaderBytes = 40;
constexpr uint64_t kChecksumBytes = 8;
// What the shortest span and the shortest list take: no count can be larger than the bytes allow.
constexpr uint64_t kLeastSpanBytes = 4;
constexpr uint64_t kLeastListBytes = 4;

enum SpanState : uint8_t { kWordsOnly = 0, kWithVector = 1, kForgotten = 2 };

uint64_t Checksum(std::string_view bytes) { return XXH3_64bits(bytes.data(), bytes.size()); }

Error Damaged(const std::string& where, std::string_view part, std::string expected,
              std::string found) {
  return Error{.kind = ErrorKind::kModelInvalid,
               .what = "the index of a conversation is damaged",
               .where = fmt::format("{}, {}", where, part),
               .expected = std::move(expected),
               .found = std::move(found),
               .remedy = "build it anew from the log"};
}

Error Unfit(const std::string& where, std::string_view part, std::string expected,
            std::string found) {
  Error error = Damaged(where, part, std::move(expected), std::move(found));
  error.kind = ErrorKind::kConfig;
  error.what = "the index of a conversation was made for something else";
  return error;
}

Error TooLarge(const std::string& where, uint64_t max_bytes, std::string found) {
  return Error{.kind = ErrorKind::kResources,
               .what = "the index of a conversation is too large",
               .where = where,
               .expected = fmt::format("at most {} bytes", max_bytes),
               .found = std::move(found),
               .remedy = "give the index more memory"};
}

// What stands between the header and the checksum is borrowed from the bytes.
struct Outside {
  uint64_t vocabulary = 0;
  uint64_t vector_dim = 0;
  uint64_t span_count = 0;
  uint64_t list_count = 0;
  std::string_view body;
};

Result<Outside> Open(std::string_view bytes, const std::string& where) {
  ByteReader reader(bytes);
  if (reader.Bytes(kMagic.size()) != kMagic || bytes.size() < kHeaderBytes + kChecksumBytes) {
    return Damaged(
        where, "header",
        fmt::format("\"{}\" and at least {} bytes", kMagic, kHeaderBytes + kChecksumBytes),
        fmt::format("{} other bytes", bytes.size()));
  }
  const auto version = reader.Number<uint32_t>();
  if (version != kVersion) {
    return Unfit(where, "version", fmt::format("{}", kVersion), fmt::format("{}", version));
  }
  const auto stated_bytes = reader.Number<uint64_t>();
  if (stated_bytes != bytes.size()) {
    return Damaged(where, "length", fmt::format("{} bytes", stated_bytes),
                   fmt::format("{} bytes", bytes.size()));
  }
  const std::string_view content = bytes.substr(0, bytes.size() - kChecksumBytes);
  const auto checksum = ByteReader(bytes.substr(content.size())).Number<uint64_t>();
  if (checksum != Checksum(content)) {
    return Damaged(where, "checksum", fmt::format("{:016x}", checksum),
                   fmt::format("{:016x}", Checksum(content)));
  }
  Outside outside;
  outside.vocabulary = reader.Number<uint64_t>();
  outside.vector_dim = reader.Number<uint32_t>();
  outside.span_count = reader.Number<uint32_t>();
  outside.list_count = reader.Number<uint32_t>();
  outside.body = content.substr(kHeaderBytes);
  return outside;
}

void WriteList(const PostingList& list, ByteWriter* writer) {
  writer->Varint(list.complete_from());
  writer->Varint(list.size());
  SpanId next = list.complete_from();
  list.ForEach([&](SpanId span, uint32_t count) {
    writer->Varint(uint64_t{span - next} << 1 | (count > 1 ? 1 : 0));
    if (count > 1) writer->Varint(count - 2);
    next = span + 1;
  });
}

}  // namespace

void Recall::AppendTo(std::string* bytes) const {
  const std::vector<const PostingList*> lists = words_.Lists();
  std::string file;
  ByteWriter writer(&file);
  file += kMagic;
  writer.Number(kVersion);
  writer.Number<uint64_t>(0);  // the length, when it is known
  writer.Number(terms_->fingerprint());
  writer.Number(static_cast<uint32_t>(vectors_.dim()));
  writer.Number(static_cast<uint32_t>(spans_.size()));
  writer.Number(static_cast<uint32_t>(lists.size()));
  writer.Number<uint32_t>(0);
  LogIndex end;
  for (SpanId id = 0; id < span_count(); ++id) {
    const Span& span = spans_[id];
    writer.Varint(static_cast<uint64_t>(span.range.from - end));
    writer.Varint(static_cast<uint64_t>(span.range.tokens()));
    writer.Varint(span.words);
    writer.Number<uint8_t>(span.forgotten ? kForgotten
                                          : (vectors_.has(id) ? kWithVector : kWordsOnly));
    end = span.range.to;
  }
  for (SpanId id = 0; id < span_count(); ++id) {
    if (!vectors_.has(id)) continue;
    const std::span<const int8_t> row = vectors_.row(id);
    file.append(reinterpret_cast<const char*>(row.data()), row.size());
  }
  TermId next = 0;
  for (const PostingList* list : lists) {
    writer.Varint(list->term() - next);
    WriteList(*list, &writer);
    next = list->term() + 1;
  }
  const uint64_t length = file.size() + kChecksumBytes;
  std::memcpy(file.data() + kMagic.size() + sizeof(kVersion), &length, sizeof(length));
  writer.Number(Checksum(file));
  *bytes += file;
}

bool Recall::ReadSpans(uint64_t span_count, ByteReader* reader) {
  std::vector<uint8_t> states;
  CheckedSize end = 0;
  for (uint64_t i = 0; i < span_count; ++i) {
    const CheckedSize from = end + reader->Varint();
    const uint64_t tokens = reader->Varint();
    const uint64_t words = reader->Varint();
    const auto state = reader->Number<uint8_t>();
    end = from + tokens;
    if (!reader->ok() || !end.AtMost(INT64_MAX) || tokens == 0 || tokens > kMaxSpanLength ||
        words > tokens || state > kForgotten || (state == kForgotten && words > 0)) {
      return false;
    }
    const Span span = {
        .range = {{static_cast<int64_t>(*from.value())}, {static_cast<int64_t>(*end.value())}},
        .words = static_cast<uint32_t>(words),
        .forgotten = state == kForgotten};
    ReserveFor(&spans_, 1, kLeastSpans);
    spans_.push_back(span);
    states.push_back(state);
    live_count_ += span.forgotten ? 0 : 1;
    word_count_ += words;
  }
  for (SpanId id = 0; id < spans_.size(); ++id) {
    const bool has = states[id] == kWithVector;
    const auto dim = static_cast<uint64_t>(vectors_.dim());
    const std::string_view row = has ? reader->Bytes(dim) : std::string_view();
    vectors_.AddRow({reinterpret_cast<const int8_t*>(row.data()), row.size()});
    if (!reader->ok() || vectors_.has(id) != has) return false;
  }
  return true;
}

bool Recall::ReadLists(uint64_t list_count, ByteReader* reader) {
  std::vector<uint64_t> held(spans_.size());  // how often the lists say a span holds a term
  bool complete = true;
  CheckedSize term_end = 0;
  for (uint64_t i = 0; i < list_count; ++i) {
    const CheckedSize term = term_end + reader->Varint();
    const uint64_t complete_from = reader->Varint();
    const uint64_t size = reader->Varint();
    if (!reader->ok() || terms_->term_count() == 0 || !term.AtMost(terms_->term_count() - 1) ||
        complete_from >= spans_.size() || size == 0 || size > PostingList::kMaxPostings) {
      return false;
    }
    term_end = term + 1;
    complete = complete && complete_from == 0;
    PostingList list(static_cast<TermId>(*term.value()), static_cast<SpanId>(complete_from));
    for (uint64_t j = 0; j < size; ++j) {
      const uint64_t head = reader->Varint();
      const CheckedSize count =
          (head & 1) == 0 ? CheckedSize(1) : CheckedSize(2) + reader->Varint();
      const CheckedSize span = CheckedSize(list.end()) + (head >> 1);
      if (!reader->ok() || !span.AtMost(spans_.size() - 1) || !count.AtMost(kMaxSpanLength)) {
        return false;
      }
      const auto id = static_cast<SpanId>(*span.value());
      held[id] += *count.value();
      list.Append(id, static_cast<uint32_t>(*count.value()));
    }
    words_.AddList(std::move(list));
  }
  for (SpanId id = 0; id < spans_.size(); ++id) {
    // What was crowded out of a full list is missing from it, but not from the span's count.
    if (held[id] > spans_[id].words || (complete && held[id] < spans_[id].words)) return false;
  }
  return reader->complete();
}

Result<Recall> Recall::Parse(const TermTable* terms, const RecallSettings& settings,
                             std::string_view bytes, const std::string& where) {
  MOORING_ASSIGN_OR_RETURN(const Outside outside, Open(bytes, where));
  if (outside.vocabulary != terms->fingerprint()) {
    return Unfit(where, "vocabulary", fmt::format("{:016x}", terms->fingerprint()),
                 fmt::format("{:016x}", outside.vocabulary));
  }
  if (outside.vector_dim != static_cast<uint64_t>(settings.vector_dim)) {
    return Unfit(where, "vectors", fmt::format("{} items", settings.vector_dim),
                 fmt::format("{} items", outside.vector_dim));
  }
  const CheckedSize least_bytes = CheckedSize(outside.span_count) * kLeastSpanBytes +
                                  CheckedSize(outside.list_count) * kLeastListBytes;
  if (outside.span_count > kMaxSpans || !least_bytes.AtMost(outside.body.size())) {
    return Damaged(where, "counts", fmt::format("what {} bytes can hold", outside.body.size()),
                   fmt::format("{} spans, {} lists", outside.span_count, outside.list_count));
  }
  const CheckedSize row_bytes = CheckedSize(sizeof(Span)) + outside.vector_dim;
  if (!(row_bytes * outside.span_count).AtMost(settings.max_bytes)) {
    return TooLarge(where, settings.max_bytes, fmt::format("{} spans", outside.span_count));
  }
  Recall recall(terms, settings);
  ByteReader reader(outside.body);
  if (!recall.ReadSpans(outside.span_count, &reader)) {
    return Damaged(where, "spans", "what this program writes there",
                   "something else under a right checksum");
  }
  if (!recall.ReadLists(outside.list_count, &reader)) {
    return Damaged(where, "words", "what this program writes there",
                   "something else under a right checksum");
  }
  if (recall.bytes() > settings.max_bytes) {
    return TooLarge(where, settings.max_bytes, fmt::format("{} bytes", recall.bytes()));
  }
  return recall;
}

}  // namespace mooring
