// The meaning of each span: a unit vector, kept as bytes, compared by its cosine.
//
// An item x of a vector v is kept as the integer nearest to 127 x / max|v|; the scale that makes
// the row a unit vector again is one over its length, of which the square, an exact integer, is
// kept. So a cosine is an exact integer dot product and one division: it does not depend on the
// order of summation, and is 1 for a row with itself. A row stands at most sqrt(dim) * max|v| / 254
// beside its unit vector (0.02 for 384 items of at most 0.25), and the cosine of two rows is off by
// at most about twice that; by a thousandth, as a rule.
//
// A span may have no vector: there was no encoder, nothing to encode, or the vector held an item
// that is not finite. Its cosine with everything is 0.
//
// Thread rule: as a value; several threads may read at a time.
#ifndef MOORING_TALK_SPAN_VECTORS_H_
#define MOORING_TALK_SPAN_VECTORS_H_

#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include "talk/posting_list.h"
#include "talk/wiped_vector.h"

namespace mooring {

// Products of two rows add up inside 32 bits: 4,096 * 128 * 128 = 2^26.
inline constexpr int32_t kMaxVectorDim = 4096;

// One vector as the search reads it. `square` is 0 when there is none.
struct QueryVector {
  std::vector<int16_t> items;  // [dim]
  int64_t square = 0;
};

class SpanVectors {
 public:
  // REQUIRES: 0 <= dim <= kMaxVectorDim. With 0 no span has a vector.
  explicit SpanVectors(int32_t dim) : dim_(dim) {}

  int32_t dim() const { return dim_; }

  // Appends the row of the next span. REQUIRES: [dim], or empty for none.
  void Add(std::span<const float> vector);
  // The same from a row as row() gives it; empty for none.
  void AddRow(std::span<const int8_t> row);
  void Erase(SpanId span);
  // Keeps the first `span_count` rows.
  void Rewind(SpanId span_count);

  bool has(SpanId span) const { return squares_[span] > 0; }
  std::span<const int8_t> row(SpanId span) const {
    return {items_.data() + size_t{span} * static_cast<size_t>(dim_), static_cast<size_t>(dim_)};
  }

  // REQUIRES: [dim], or empty for none.
  QueryVector Prepare(std::span<const float> vector) const;
  double Cosine(const QueryVector& query, SpanId span) const;
  double Cosine(SpanId a, SpanId b) const;

  uint64_t bytes() const { return items_.capacity() + squares_.capacity() * sizeof(int32_t); }
  // By how much bytes() grows with one more span.
  uint64_t GrowthBytes() const;

 private:
  static constexpr size_t kLeastRows = 16;

  void Reserve();

  int32_t dim_;
  WipedVector<int8_t> items_;     // [spans, dim]
  WipedVector<int32_t> squares_;  // [spans] squared lengths of the rows
};

}  // namespace mooring

#endif  // MOORING_TALK_SPAN_VECTORS_H_
