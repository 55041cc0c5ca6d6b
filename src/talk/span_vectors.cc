#include "talk/span_vectors.h"

#include <algorithm>
#include <cmath>

#include "base/check.h"

namespace mooring {
namespace {

constexpr double kMaxItem = 127;

// Writes the integers of `vector` to `items` [dim], all zeros when it has none that count.
void Quantise(std::span<const float> vector, std::span<int8_t> items) {
  double largest = 0;
  bool finite = true;
  for (const float x : vector) {
    finite = finite && std::isfinite(x);
    largest = std::max(largest, std::abs(double{x}));
  }
  std::ranges::fill(items, int8_t{0});
  if (!finite || largest == 0) return;
  const double scale = kMaxItem / largest;
  for (size_t i = 0; i < vector.size(); ++i) {
    items[i] = static_cast<int8_t>(std::lround(double{vector[i]} * scale));
  }
}

// Items of 16 bits against items of 8 are what compilers turn into the multiply-and-add of pairs
// that every x86-64 has.
template <typename Item>
int32_t Dot(const Item* a, const int8_t* b, size_t count) {
  int32_t sum = 0;
  for (size_t i = 0; i < count; ++i) sum += int32_t{a[i]} * int32_t{b[i]};
  return sum;
}

double CosineOf(int32_t dot, int64_t square_a, int64_t square_b) {
  if (square_a == 0 || square_b == 0) return 0;
  return dot / std::sqrt(static_cast<double>(square_a * square_b));
}

}  // namespace

void SpanVectors::Reserve() {
  const auto dim = static_cast<size_t>(dim_);
  ReserveFor(&items_, dim, kLeastRows * dim);
  ReserveFor(&squares_, 1, kLeastRows);
}

uint64_t SpanVectors::GrowthBytes() const {
  const auto dim = static_cast<size_t>(dim_);
  const size_t items = CapacityFor(items_, dim, kLeastRows * dim) - items_.capacity();
  const size_t squares = CapacityFor(squares_, 1, kLeastRows) - squares_.capacity();
  return items + squares * sizeof(int32_t);
}

void SpanVectors::Add(std::span<const float> vector) {
  const auto dim = static_cast<size_t>(dim_);
  CHECK(vector.empty() || vector.size() == dim);
  WipedVector<int8_t> row(dim);
  Quantise(vector, row);
  AddRow(row);
}

void SpanVectors::AddRow(std::span<const int8_t> row) {
  const auto dim = static_cast<size_t>(dim_);
  CHECK(row.empty() || row.size() == dim);
  Reserve();
  squares_.push_back(Dot(row.data(), row.data(), row.size()));
  items_.insert(items_.end(), row.begin(), row.end());
  items_.resize(squares_.size() * dim);
}

void SpanVectors::Erase(SpanId span) {
  const auto dim = static_cast<size_t>(dim_);
  std::fill_n(items_.begin() + static_cast<ptrdiff_t>(size_t{span} * dim), dim, int8_t{0});
  squares_[span] = 0;
}

void SpanVectors::Rewind(SpanId span_count) {
  ShrinkWiped(&items_, size_t{span_count} * static_cast<size_t>(dim_));
  ShrinkWiped(&squares_, span_count);
}

QueryVector SpanVectors::Prepare(std::span<const float> vector) const {
  CHECK(vector.empty() || vector.size() == static_cast<size_t>(dim_));
  std::vector<int8_t> row(static_cast<size_t>(dim_));
  Quantise(vector, row);
  return {.items = {row.begin(), row.end()}, .square = Dot(row.data(), row.data(), row.size())};
}

double SpanVectors::Cosine(const QueryVector& query, SpanId span) const {
  const std::span<const int8_t> items = row(span);
  return CosineOf(Dot(query.items.data(), items.data(), items.size()), query.square,
                  squares_[span]);
}

double SpanVectors::Cosine(SpanId a, SpanId b) const {
  return CosineOf(Dot(row(a).data(), row(b).data(), row(a).size()), squares_[a], squares_[b]);
}

}  // namespace mooring
