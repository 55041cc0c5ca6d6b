#include "engine/sampler.h"

#include <gtest/gtest.h>

#include <cmath>
#include <limits>
#include <vector>

namespace mooring {
namespace {

SamplerSettings Plain() {
  return {.temperature = 1, .top_p = 1, .top_k = 0, .min_p = 0, .seed = 3};
}

std::vector<int> Counts(const std::vector<float>& logits, SamplerSettings settings, int draws,
                        std::span<const TokenId> recent = {}) {
  SamplerScratch scratch(static_cast<int64_t>(logits.size()));
  std::vector<int> counts(logits.size());
  for (int i = 0; i < draws; ++i) {
    ++counts[static_cast<size_t>(SampleToken(logits, settings, recent, {i}, &scratch).token)];
  }
  return counts;
}

TEST(Sampler, GreedyTakesTheFirstOfTheLargest) {
  SamplerSettings settings = Plain();
  settings.temperature = 0;
  EXPECT_EQ(Counts({1, 5, 5, 2}, settings, 10), (std::vector<int>{0, 10, 0, 0}));
}

TEST(Sampler, DrawsFollowTheProbabilities) {
  const std::vector<float> logits = {std::log(0.5F), std::log(0.3F), std::log(0.2F)};
  const std::vector<int> counts = Counts(logits, Plain(), 20000);
  // Four standard deviations of a binomial count.
  for (const auto& [i, p] : {std::pair<size_t, double>{0, 0.5}, {1, 0.3}, {2, 0.2}}) {
    EXPECT_NEAR(counts[i], 20000 * p, 4 * std::sqrt(20000 * p * (1 - p)));
  }
}

TEST(Sampler, TheSameSeedAndIndexGiveTheSameToken) {
  const std::vector<float> logits = {0.1F, 0.2F, 0.3F, 0.4F, 0.1F, 0.2F};
  SamplerSettings settings = Plain();
  EXPECT_EQ(Counts(logits, settings, 500), Counts(logits, settings, 500));
  SamplerScratch scratch(6);
  int differ = 0;
  for (int i = 0; i < 200; ++i) {
    settings.seed = 3;
    const TokenId a = SampleToken(logits, settings, {}, {i}, &scratch).token;
    settings.seed = 4;
    differ += a != SampleToken(logits, settings, {}, {i}, &scratch).token ? 1 : 0;
  }
  EXPECT_GT(differ, 100);
}

TEST(Sampler, TopKTopPAndMinPCutTheTail) {
  const std::vector<float> logits = {std::log(0.5F), std::log(0.3F), std::log(0.15F),
                                     std::log(0.05F)};
  SamplerSettings settings = Plain();
  settings.top_k = 2;
  std::vector<int> counts = Counts(logits, settings, 2000);
  EXPECT_EQ(counts[2] + counts[3], 0);
  EXPECT_GT(counts[1], 0);
  settings = Plain();
  settings.top_p = 0.79F;  // 0.5 + 0.3 is the first sum that reaches it
  counts = Counts(logits, settings, 2000);
  EXPECT_EQ(counts[2] + counts[3], 0);
  EXPECT_GT(counts[1], 0);
  settings = Plain();
  settings.min_p = 0.2F;  // of the best: 0.1
  counts = Counts(logits, settings, 2000);
  EXPECT_EQ(counts[3], 0);
  EXPECT_GT(counts[2], 0);
}

TEST(Sampler, PenaltiesLookAtRecentTokensOnly) {
  const std::vector<float> logits = {2.0F, 1.9F, -1.0F};
  SamplerSettings settings = Plain();
  settings.temperature = 0;
  settings.repeat_penalty = 1.2F;
  const std::vector<TokenId> recent = {0};
  EXPECT_EQ(Counts(logits, settings, 1, recent)[1], 1);
  settings.penalty_window = 1;
  const std::vector<TokenId> long_ago = {0, 2};
  EXPECT_EQ(Counts(logits, settings, 1, long_ago)[0], 1);
  settings.repeat_penalty = 1;
  settings.penalty_window = 256;
  settings.presence_penalty = 0.5F;
  const std::vector<TokenId> twice = {0, 0};  // counted once
  EXPECT_EQ(Counts(logits, settings, 1, twice)[1], 1);
}

TEST(Sampler, ReportsTheLogProbability) {
  SamplerScratch scratch(2);
  SamplerSettings settings = Plain();
  settings.temperature = 0;
  const std::vector<float> logits = {0, std::log(3.0F)};
  EXPECT_NEAR(SampleToken(logits, settings, {}, {0}, &scratch).log_probability, std::log(0.75),
              1e-6);
}

TEST(Sampler, RefusesBadSettings) {
  const float nan = std::numeric_limits<float>::quiet_NaN();
  const float infinity = std::numeric_limits<float>::infinity();
  EXPECT_TRUE(CheckSamplerSettings(SamplerSettings{}).ok());
  for (const float bad : {nan, infinity, -1.0F}) {
    EXPECT_FALSE(CheckSamplerSettings({.temperature = bad}).ok());
    EXPECT_FALSE(CheckSamplerSettings({.top_p = bad}).ok());
    EXPECT_FALSE(CheckSamplerSettings({.min_p = bad}).ok());
    EXPECT_FALSE(CheckSamplerSettings({.repeat_penalty = bad}).ok());
  }
  EXPECT_FALSE(CheckSamplerSettings({.top_k = -1}).ok());
  EXPECT_FALSE(CheckSamplerSettings({.presence_penalty = nan}).ok());
  EXPECT_FALSE(CheckSamplerSettings({.penalty_window = -1}).ok());
}

TEST(Sampler, FindsWhatIsNotFinite) {
  std::vector<float> logits(100, 1.0F);
  EXPECT_TRUE(AllFinite(logits));
  for (const float bad :
       {std::numeric_limits<float>::quiet_NaN(), std::numeric_limits<float>::infinity(),
        -std::numeric_limits<float>::infinity()}) {
    logits[57] = bad;
    EXPECT_FALSE(AllFinite(logits));
  }
}

}  // namespace
}  // namespace mooring
