// The index of one conversation's spans (talk/spans.h), by words and by meaning: the words of a new
// message and their vector in, the few spans that it is about out. It knows no pages and no text:
// words are numbers of a TermTable, and vectors come from whoever has an encoder.
//
// Search is a function of what was added and not forgotten, and of the query; nothing is random,
// and no number of a hit is ever NaN. The rule is in docs/memory.md.
//
// A fork is a copy. What is forgotten or taken back leaves no trace: its words and its vector are
// overwritten, and the bytes of AppendTo hold nothing of them. What they had crowded out of a full
// posting list does not come back.
//
// Thread rule: as a value. Several threads may search one index that nobody changes.
#ifndef MOORING_TALK_RECALL_H_
#define MOORING_TALK_RECALL_H_

#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "base/result.h"
#include "talk/byte_stream.h"
#include "talk/span_vectors.h"
#include "talk/spans.h"
#include "talk/term_table.h"
#include "talk/wiped_vector.h"
#include "talk/word_index.h"

namespace mooring {

// Set by the quartiles of the best cosine with all-MiniLM-L6-v2: 0.30 to 0.47 for questions in
// other words than the fact's, 0.33 to 0.41 for questions that have no answer. They overlap, and a
// missed fact costs more than a needless span; so the gates are low, and still to be tuned.
struct RecallGates {
  // Nothing is recalled when the best span's cosine and share are both below these.
  double least_cosine = 0.25;
  double least_share = 0.30;
  // A span stands behind the anchors, out of the way, when both of its are below these.
  double near_cosine = 0.30;
  double near_share = 0.50;
};

struct RecallSettings {
  int32_t vector_dim = 384;  // items of a vector; 0: words only
  uint64_t max_bytes = uint64_t{64} << 20;
  RecallGates gates = {};
};

// Where a recalled span is to stand in the window.
enum class Landing : uint8_t {
  kBeforeMessage,  // right before the message that asked for it: the search is sure
  kBehindAnchors,
};

struct RecallQuery {
  std::span<const TokenId> tokens;  // the words of the message, without the template's
  std::span<const float> vector;    // [vector_dim] or empty: search by words alone
  // Spans that begin here or later still stand in the window; unless set, none does.
  LogIndex window_from = {INT64_MAX};
};

struct RecallHit {
  SpanId span = 0;
  LogRange range;
  // Why it was found.
  double cosine = 0;  // of the message and the span; 0 without vectors
  double share = 0;   // how much of the message's words it holds, by weight, 0 to 1
  double bm25 = 0;    // as docs/memory.md has it
  double score = 0;   // by which the spans were ranked, in standard deviations
  Landing landing = Landing::kBeforeMessage;
};

class Recall {
 public:
  static constexpr size_t kMaxHits = 4;
  // Most tokens of one span; spans of CutSpans are far shorter.
  static constexpr int64_t kMaxSpanLength = int64_t{1} << 20;

  // `terms` outlives this. REQUIRES: 0 <= vector_dim <= kMaxVectorDim.
  Recall(const TermTable* terms, const RecallSettings& settings);

  // What AppendTo wrote. kModelInvalid for bytes that are damaged, cut short or made to deceive
  // (where, expected, found), kConfig for another version, another vocabulary or vectors of another
  // size (the index can then only be built anew), kResources above max_bytes. `where` is what
  // errors call the bytes. Takes no more memory than max_bytes and a small factor of bytes.size().
  static Result<Recall> Parse(const TermTable* terms, const RecallSettings& settings,
                              std::string_view bytes, const std::string& where);
  // Little endian; docs/formats.md has the bytes.
  void AppendTo(std::string* bytes) const;

  // Adds the newest span: its tokens that are words of the user or the assistant, and the vector of
  // the user's words, [vector_dim] or empty. A vector with an item that is not finite counts as
  // none. kResources, and nothing changed, when the index would grow beyond max_bytes.
  // REQUIRES: the range is not empty and behind all spans; at most as many tokens as it has.
  Result<SpanId> Add(const LogRange& range, std::span<const TokenId> tokens,
                     std::span<const float> vector);
  // Erases all that is known of a span but its place in the log; its number is not used again.
  // REQUIRES: span < span_count().
  void Forget(SpanId span);
  // Takes back span `first` and all after it. Words that were crowded out of a full posting list
  // since do not come back. REQUIRES: first <= span_count().
  void Rewind(SpanId first);

  // At most kMaxHits spans, from the worst to the best, none of them in the window.
  std::vector<RecallHit> Search(const RecallQuery& query) const;

  // Spans that were added and not taken back, the forgotten ones too.
  SpanId span_count() const { return static_cast<SpanId>(spans_.size()); }
  bool forgotten(SpanId span) const { return spans_[span].forgotten; }
  LogRange range(SpanId span) const { return spans_[span].range; }
  // The span's vector as it is kept: [vector_dim], or empty where there is none. Added again as
  // floats it gives the same.
  std::span<const int8_t> row(SpanId span) const {
    return vectors_.has(span) ? vectors_.row(span) : std::span<const int8_t>();
  }
  // All memory that the index holds on the heap; never above max_bytes after Add.
  uint64_t bytes() const;

 private:
  struct Span {
    LogRange range;
    uint32_t words = 0;  // tokens that are terms
    bool forgotten = false;
  };
  // What speaks for a span. By SpanId while it is gathered, then without the forgotten.
  struct Evidence {
    SpanId span = 0;
    float score = 0;  // rounded (recall_search.cc), so that equals tie
    double cosine = 0;
    double share = 0;
    double bm25 = 0;
  };

  static constexpr size_t kLeastSpans = 16;

  // False for what no AppendTo wrote. `span_count` and `list_count` are as the bytes say.
  bool ReadSpans(uint64_t span_count, ByteReader* reader);
  bool ReadLists(uint64_t list_count, ByteReader* reader);

  void WeighWords(std::span<const TokenId> tokens, std::vector<Evidence>* evidence) const;
  std::vector<Evidence> Weigh(std::span<const TokenId> tokens, const QueryVector& vector) const;
  RecallHit HitOf(const Evidence& evidence, bool sure) const;

  const TermTable* terms_;
  RecallSettings settings_;
  WipedVector<Span> spans_;
  SpanVectors vectors_;
  WordIndex words_;
  SpanId live_count_ = 0;    // not forgotten
  uint64_t word_count_ = 0;  // of all spans
};

}  // namespace mooring

#endif  // MOORING_TALK_RECALL_H_
