// Which spans hold one term, and how often: ascending pairs (span, count), delta coded.
//
// Only the newest kMaxPostings are kept. The list then says from which span on it is complete, so
// that how common the term is can still be told. A pair takes one byte when the term comes once and
// the last span with it is not far.
//
// Thread rule: as a value.
#ifndef MOORING_TALK_POSTING_LIST_H_
#define MOORING_TALK_POSTING_LIST_H_

#include <cstddef>
#include <cstdint>

#include "talk/term_table.h"
#include "talk/wiped_vector.h"

namespace mooring {

// The number of a span in its conversation: 0, 1, ... in the order of the log.
using SpanId = uint32_t;
inline constexpr SpanId kMaxSpans = SpanId{1} << 30;

class PostingList {
 public:
  static constexpr uint32_t kMaxPostings = 4096;
  static constexpr size_t kMaxPostingBytes = 10;

  explicit PostingList(TermId term) : term_(term) {}
  // Of a term whose pairs before span `complete_from` are lost.
  PostingList(TermId term, SpanId complete_from)
      : term_(term), complete_from_(complete_from), end_(complete_from) {}

  TermId term() const { return term_; }
  uint32_t size() const { return size_; }
  // Every span from here on that holds the term is listed.
  SpanId complete_from() const { return complete_from_; }
  // One past the last span that is listed.
  SpanId end() const { return end_; }

  // Drops the oldest pair when there are too many. REQUIRES: end() <= span < kMaxSpans, count > 0.
  void Append(SpanId span, uint32_t count);
  // Takes out the spans from `first` to before `last`; of them no trace stays.
  void Erase(SpanId first, SpanId last);
  // Whether a span from `first` to before `last` is listed.
  bool HoldsAnyOf(SpanId first, SpanId last) const;

  // visit(span, count) for each pair, ascending.
  template <typename Visit>
  void ForEach(Visit visit) const {
    const uint8_t* at = bytes_.data();
    SpanId next = complete_from_;
    for (uint32_t i = 0; i < size_; ++i) {
      const Posting posting = Read(&at, next);
      visit(posting.span, posting.count);
      next = posting.span + 1;
    }
  }

  // In how many of `span_count` spans the term is: exactly while the list is complete, else as if
  // it had always been as common as since complete_from(). REQUIRES: end() <= span_count.
  double SpanFrequency(SpanId span_count) const {
    return static_cast<double>(size_) * span_count / (span_count - complete_from_);
  }

  // Bytes on the heap, with what the heap itself takes for a piece.
  uint64_t heap_bytes() const { return HeapBytes(bytes_.capacity()); }
  // By how much heap_bytes() grows at most with one more pair.
  uint64_t GrowthBytes() const {
    return HeapBytes(CapacityFor(bytes_, kMaxPostingBytes, kLeastGrowth)) - heap_bytes();
  }
  static constexpr uint64_t HeapBytes(size_t capacity) {
    return capacity == 0 ? 0 : capacity + kHeapOverhead;
  }
  // The capacity of a list with one pair.
  static constexpr size_t kLeastGrowth = 16;

 private:
  static constexpr uint64_t kHeapOverhead = 16;

  struct Posting {
    SpanId span;
    uint32_t count;
  };

  // A pair is (gap << 1 | more), then, if `more`, count - 2: numbers of 7 bits a byte, lowest
  // first. The gap is counted from the first span that the pair could be of, `next`.
  static Posting Read(const uint8_t** at, SpanId next) {
    const uint32_t head = ReadNumber(at);
    return {next + (head >> 1), (head & 1) == 0 ? 1 : ReadNumber(at) + 2};
  }
  static uint32_t ReadNumber(const uint8_t** at) {
    uint32_t number = 0;
    for (int shift = 0;; shift += 7) {
      const uint32_t byte = *(*at)++;
      number |= (byte & 0x7F) << shift;
      if (byte < 0x80) return number;
    }
  }
  void AppendNumber(uint32_t number);
  void DropOldest();

  TermId term_;
  SpanId complete_from_ = 0;
  SpanId end_ = 0;
  uint32_t size_ = 0;
  WipedVector<uint8_t> bytes_;
};

}  // namespace mooring

#endif  // MOORING_TALK_POSTING_LIST_H_
