// Positions, and all rotary arithmetic there is.
//
// Two kinds of position that never convert silently:
//   LogIndex   where a token stands in the whole conversation; grows for ever; never enters a
//   kernel. WindowPos  where a token stands among those attended to now; bounded by the window.
//
// A key is stored rotated by its slot inside its page (0 .. page slots - 1); attention rotates the
// query by (query position - page base) and takes plain dot products. Rotary attention depends on
// differences only, so this is exact, and moving a page never touches a key.
//
// Pairs are half-split inside this program: item i turns with item i + rotary_dim / 2. Files that
// interleave the pairs (2i with 2i + 1) are put in that order right after the projection.
//
// Thread rule: pure functions; a RotaryTable is immutable after it is made.
#ifndef MOORING_TENSOR_POSITION_H_
#define MOORING_TENSOR_POSITION_H_

#include <algorithm>
#include <compare>
#include <cstdint>
#include <span>
#include <vector>

namespace mooring {

struct LogIndex {
  int64_t value = 0;
  friend constexpr auto operator<=>(LogIndex, LogIndex) = default;
  constexpr LogIndex operator+(int64_t count) const { return {value + count}; }
  constexpr LogIndex operator-(int64_t count) const { return {value - count}; }
  constexpr int64_t operator-(LogIndex other) const { return value - other.value; }
};

// The tokens of the log from `from` to before `to`.
struct LogRange {
  LogIndex from;
  LogIndex to;

  constexpr int64_t tokens() const { return to - from; }
  constexpr bool Overlaps(const LogRange& other) const {
    return from < other.to && other.from < to;
  }
  friend bool operator==(const LogRange&, const LogRange&) = default;
};

struct WindowPos {
  int32_t value = 0;
  friend constexpr auto operator<=>(WindowPos, WindowPos) = default;
  constexpr WindowPos operator+(int32_t count) const { return {value + count}; }
  constexpr int32_t operator-(WindowPos other) const { return value - other.value; }
};

// By how much a query at `query` turns to meet a page at `base`: anchors cap the query's position,
// so that the distance to them stops growing at the window's edge.
constexpr int32_t QueryTurn(WindowPos query, WindowPos query_cap, WindowPos base) {
  return std::min(query, query_cap) - base;
}

// How a model turns its heads. Frequencies are fixed at load: the identity above needs that.
struct RotarySpec {
  int rotary_dim = 0;     // leading items of a head that turn; even; the rest passes through
  double base = 10000.0;  // pair i turns by base^(-2 i / rotary_dim) per position
  double scale = 1.0;     // linear scaling: positions are divided by this
  std::vector<float> pair_divisors;  // [rotary_dim / 2] divisors of the frequencies, or empty
};

// Cosines and sines of every turn from 0 to `turn_count` - 1, computed in double.
class RotaryTable {
 public:
  RotaryTable() = default;
  RotaryTable(const RotarySpec& spec, int32_t turn_count);

  int32_t turn_count() const { return turn_count_; }
  int half_dim() const { return half_dim_; }
  // [half_dim] each. REQUIRES: 0 <= turn < turn_count().
  const float* cosines(int32_t turn) const { return values_.data() + RowOffset(turn); }
  const float* sines(int32_t turn) const { return values_.data() + RowOffset(turn) + half_dim_; }

 private:
  size_t RowOffset(int32_t turn) const {
    return static_cast<size_t>(turn) * 2 * static_cast<size_t>(half_dim_);
  }
  int32_t turn_count_ = 0;
  int half_dim_ = 0;
  std::vector<float> values_;  // [turn_count, 2, half_dim]: cosines, then sines
};

// Turns the first 2 * half_dim items of `head` in place. The one scalar definition of a rotation.
inline void RotateHead(float* head, const float* cosines, const float* sines, int half_dim) {
  for (int i = 0; i < half_dim; ++i) {
    const float a = head[i];
    const float b = head[i + half_dim];
    head[i] = a * cosines[i] - b * sines[i];
    head[i + half_dim] = a * sines[i] + b * cosines[i];
  }
}

// From interleaved pairs (2i, 2i + 1) to half-split pairs (i, i + half_dim). Not in place.
inline void SplitPairs(const float* interleaved, float* split, int half_dim) {
  for (int i = 0; i < half_dim; ++i) {
    split[i] = interleaved[2 * i];
    split[i + half_dim] = interleaved[2 * i + 1];
  }
}

}  // namespace mooring

#endif  // MOORING_TENSOR_POSITION_H_
