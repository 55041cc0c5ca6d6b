#include "talk/span_vectors.h"

#include <gtest/gtest.h>

#include <cmath>
#include <limits>

#include "base/random.h"

namespace mooring {
namespace {

std::vector<float> RandomUnit(int32_t dim, uint64_t stream) {
  std::vector<float> vector(static_cast<size_t>(dim));
  double square = 0;
  for (size_t i = 0; i < vector.size(); ++i) {
    vector[i] = static_cast<float>(RandomUniform(5, stream, i) - 0.5);
    square += double{vector[i]} * vector[i];
  }
  for (float& x : vector) x = static_cast<float>(x / std::sqrt(square));
  return vector;
}

double CosineOf(const std::vector<float>& a, const std::vector<float>& b) {
  double dot = 0;
  for (size_t i = 0; i < a.size(); ++i) dot += double{a[i]} * b[i];
  return dot;
}

double Largest(const std::vector<float>& vector) {
  double largest = 0;
  for (const float x : vector) largest = std::max(largest, std::abs(double{x}));
  return largest;
}

// A row stands at most sqrt(dim) * max / 254 beside its vector (each item is off by half a step of
// max / 127): so far can each of two rows turn, and a cosine changes by no more than the angle.
TEST(SpanVectorsTest, CosinesAreThoseOfTheVectors) {
  for (const int32_t dim : {1, 3, 17, 384}) {
    SpanVectors vectors(dim);
    std::vector<std::vector<float>> exact;
    for (uint64_t i = 0; i < 20; ++i) {
      exact.push_back(RandomUnit(dim, i));
      vectors.Add(exact.back());
    }
    for (SpanId a = 0; a < 20; ++a) {
      const QueryVector query = vectors.Prepare(exact[a]);
      EXPECT_NEAR(vectors.Cosine(a, a), 1, 1e-15);
      for (SpanId b = 0; b < 20; ++b) {
        const double step = std::sqrt(dim) / 254;
        const double turn = std::asin(std::min(1.0, step * Largest(exact[a]))) +
                            std::asin(std::min(1.0, step * Largest(exact[b])));
        EXPECT_NEAR(vectors.Cosine(a, b), CosineOf(exact[a], exact[b]), turn + 1e-6);
        EXPECT_EQ(vectors.Cosine(query, b), vectors.Cosine(a, b));
      }
    }
  }
}

TEST(SpanVectorsTest, DotProductsAreExact) {
  constexpr int32_t kDim = kMaxVectorDim;
  SpanVectors vectors(kDim);
  vectors.AddRow(std::vector<int8_t>(kDim, -128));
  vectors.AddRow(std::vector<int8_t>(kDim, 127));
  EXPECT_NEAR(vectors.Cosine(0, 1), -1, 1e-15);
  EXPECT_NEAR(vectors.Cosine(0, 0), 1, 1e-15);
}

TEST(SpanVectorsTest, NoVectorIsLikeNothing) {
  SpanVectors vectors(3);
  const float nan = std::numeric_limits<float>::quiet_NaN();
  const float infinity = std::numeric_limits<float>::infinity();
  vectors.Add({});
  vectors.Add(std::vector<float>{0, 0, 0});
  vectors.Add(std::vector<float>{0, nan, 1});
  vectors.Add(std::vector<float>{infinity, 0, 1});
  vectors.Add(std::vector<float>{1e-45F, 0, 0});  // the smallest there is
  for (SpanId span = 0; span < 4; ++span) {
    EXPECT_FALSE(vectors.has(span));
    EXPECT_EQ(vectors.Cosine(span, 4), 0);
    EXPECT_EQ(vectors.Cosine(span, span), 0);
  }
  EXPECT_TRUE(vectors.has(4));
  EXPECT_EQ(vectors.Cosine(4, 4), 1);
  EXPECT_EQ(vectors.Prepare({}).square, 0);
}

TEST(SpanVectorsTest, ErasesAndTakesBack) {
  SpanVectors vectors(17);
  for (uint64_t i = 0; i < 40; ++i) {
    const uint64_t before = vectors.bytes();
    const uint64_t growth = vectors.GrowthBytes();
    vectors.Add(RandomUnit(17, i));
    EXPECT_EQ(vectors.bytes(), before + growth);
  }
  vectors.Erase(7);
  EXPECT_FALSE(vectors.has(7));
  for (const int8_t item : vectors.row(7)) EXPECT_EQ(item, 0);
  EXPECT_TRUE(vectors.has(8));
  const uint64_t bytes = vectors.bytes();
  vectors.Rewind(8);
  vectors.Add(RandomUnit(17, 99));
  EXPECT_EQ(vectors.bytes(), bytes);
  EXPECT_NEAR(vectors.Cosine(vectors.Prepare(RandomUnit(17, 99)), 8), 1, 1e-15);
}

TEST(SpanVectorsTest, ZeroItemsAreNoVectors) {
  SpanVectors vectors(0);
  vectors.Add({});
  EXPECT_FALSE(vectors.has(0));
  EXPECT_EQ(vectors.Cosine(vectors.Prepare({}), 0), 0);
}

}  // namespace
}  // namespace mooring
