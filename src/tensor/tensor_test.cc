#include <gtest/gtest.h>

#include <cmath>
#include <limits>
#include <random>

#include "tensor/dtype.h"
#include "tensor/kv_view.h"
#include "tensor/position.h"

namespace mooring {
namespace {

TEST(Half, EveryHalfSurvivesTheRoundTrip) {
  for (uint32_t bits = 0; bits < 65536; ++bits) {
    const float value = FloatFromHalf(static_cast<uint16_t>(bits));
    if (std::isnan(value)) {
      EXPECT_TRUE(std::isnan(FloatFromHalf(HalfFromFloat(value))));
    } else {
      EXPECT_EQ(HalfFromFloat(value), bits);
    }
  }
}

TEST(Half, RoundsToTheNearestTiesToEven) {
  // Halfway between neighbours, and a hair to either side.
  for (uint32_t bits = 0; bits < 0x7BFF; ++bits) {
    const auto low = static_cast<uint16_t>(bits);
    const double middle = (static_cast<double>(FloatFromHalf(low)) +
                           static_cast<double>(FloatFromHalf(static_cast<uint16_t>(bits + 1)))) /
                          2;
    const auto exact = static_cast<float>(middle);
    ASSERT_EQ(static_cast<double>(exact), middle);
    EXPECT_EQ(HalfFromFloat(exact), bits % 2 == 0 ? bits : bits + 1);
    EXPECT_EQ(HalfFromFloat(std::nextafter(exact, 0.0F)), bits);
    EXPECT_EQ(HalfFromFloat(std::nextafter(exact, 1e9F)), bits + 1);
  }
  EXPECT_EQ(HalfFromFloat(65520.0F), 0x7C00);
  EXPECT_EQ(HalfFromFloat(-std::numeric_limits<float>::infinity()), 0xFC00);
}

TEST(BFloat, RoundsToTheNearestTiesToEven) {
  EXPECT_EQ(BFloatFromFloat(1.0F), 0x3F80);
  EXPECT_EQ(BFloatFromFloat(std::bit_cast<float>(0x3F808000U)), 0x3F80);
  EXPECT_EQ(BFloatFromFloat(std::bit_cast<float>(0x3F818000U)), 0x3F82);
  EXPECT_EQ(BFloatFromFloat(std::bit_cast<float>(0x3F808001U)), 0x3F81);
  EXPECT_TRUE(
      std::isnan(FloatFromBFloat(BFloatFromFloat(std::numeric_limits<float>::quiet_NaN()))));
}

TEST(Rotary, ProductsDependOnDistanceOnly) {
  const RotarySpec spec = {.rotary_dim = 64, .base = 10000.0, .scale = 1.0, .pair_divisors = {}};
  const RotaryTable table(spec, 4096);
  std::mt19937 random(5);
  std::normal_distribution<float> normal;
  std::array<float, 64> q{};
  std::array<float, 64> k{};
  for (size_t i = 0; i < 64; ++i) {
    q[i] = normal(random);
    k[i] = normal(random);
  }
  const auto score = [&](int32_t query, int32_t key) {
    auto a = q;
    auto b = k;
    RotateHead(a.data(), table.cosines(query), table.sines(query), 32);
    RotateHead(b.data(), table.cosines(key), table.sines(key), 32);
    double sum = 0;
    for (size_t i = 0; i < 64; ++i) sum += static_cast<double>(a[i]) * static_cast<double>(b[i]);
    return sum;
  };
  for (const int32_t distance : {0, 1, 100, 2000}) {
    EXPECT_NEAR(score(distance, 0), score(distance + 2000, 2000), 2e-5);
  }
}

TEST(Rotary, ScaleAndDivisors) {
  RotarySpec spec = {.rotary_dim = 4, .base = 100.0, .scale = 2.0, .pair_divisors = {1.0F, 5.0F}};
  const RotaryTable table(spec, 8);
  EXPECT_NEAR(table.cosines(6)[0], std::cos(3.0), 1e-7);
  EXPECT_NEAR(table.sines(6)[1], std::sin(6.0 * 0.1 / 2.0 / 5.0), 1e-7);
}

TEST(Rotary, SplitPairs) {
  const float interleaved[] = {0, 10, 1, 11, 2, 12};
  float split[6];
  SplitPairs(interleaved, split, 3);
  EXPECT_TRUE(std::ranges::equal(split, std::array{0.0F, 1.0F, 2.0F, 10.0F, 11.0F, 12.0F}));
}

TEST(Positions, CappedQueriesStopTurning) {
  EXPECT_EQ(QueryTurn({50}, {40}, {3}), 37);
  EXPECT_EQ(QueryTurn({30}, {40}, {3}), 27);
  EXPECT_EQ(LogIndex{7} - LogIndex{3}, 4);
}

TEST(Slots, WhatARowSees) {
  PageRef page;
  page.base = {20};
  const RowPlace place = {.query = {30}, .first_visible = {23}};
  EXPECT_EQ(VisibleSlots(page, place).first, 3);
  EXPECT_EQ(VisibleSlots(page, place).last, 10);
  page.ages = false;
  page.used = 4;
  EXPECT_EQ(VisibleSlots(page, place).first, 0);
  EXPECT_EQ(VisibleSlots(page, place).last, 3);
  page.base = {31};
  EXPECT_TRUE(VisibleSlots(page, place).empty());
  page = {};
  page.base = {0};
  EXPECT_TRUE(VisibleSlots(page, place).empty());
}

}  // namespace
}  // namespace mooring
