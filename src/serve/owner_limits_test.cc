#include "serve/owner_limits.h"

#include <gtest/gtest.h>

namespace mooring {
namespace {

TEST(OwnerLimitsTest, CountsRequestsByTheMinute) {
  OwnerLimits limits({.requests_per_minute = 6});
  for (int i = 0; i < 6; ++i) EXPECT_FALSE(limits.CountRequest("a", 100.0)) << i;
  const auto refused = limits.CountRequest("a", 104.0);
  ASSERT_TRUE(refused);
  EXPECT_EQ(refused->status, 429);
  EXPECT_EQ(refused->code, "rate_limit_exceeded");
  EXPECT_EQ(refused->retry_after, 6);
  EXPECT_FALSE(limits.CountRequest("b", 104.0));  // of another owner
  EXPECT_FALSE(limits.CountRequest("a", 110.1));
  EXPECT_TRUE(limits.CountRequest("a", 110.1));
  // However long nobody asks, no more than a minute's may come at once.
  for (int i = 0; i < 6; ++i) EXPECT_FALSE(limits.CountRequest("a", 9999.0)) << i;
  EXPECT_TRUE(limits.CountRequest("a", 9999.0));
}

TEST(OwnerLimitsTest, AnOwnerHasItsShareOfTheTurns) {
  OwnerLimits limits({.turns = 2});
  auto first = limits.TakePlace("a");
  auto second = limits.TakePlace("a");
  const auto third = limits.TakePlace("a");
  ASSERT_TRUE(std::holds_alternative<ApiError>(third));
  EXPECT_EQ(std::get<ApiError>(third).code, "key_over_share");
  EXPECT_TRUE(std::holds_alternative<OwnerLimits::Place>(limits.TakePlace("b")));
  std::get<OwnerLimits::Place>(first).reset();
  EXPECT_TRUE(std::holds_alternative<OwnerLimits::Place>(limits.TakePlace("a")));
}

TEST(OwnerLimitsTest, WithoutLimitsNobodyIsRefused) {
  OwnerLimits limits({});
  for (int i = 0; i < 1000; ++i) {
    EXPECT_FALSE(limits.CountRequest("a", 0.0));
    EXPECT_TRUE(std::holds_alternative<OwnerLimits::Place>(limits.TakePlace("a")));
  }
}

}  // namespace
}  // namespace mooring
