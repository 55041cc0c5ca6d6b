#include "engine/sampler.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <limits>
#include <vector>

#include "base/random.h"

namespace mooring {
namespace {

SamplerSettings Plain() {
  return {.temperature = 1, .top_p = 1, .top_k = 0, .min_p = 0, .seed = 3};
}

std::vector<int> Counts(const std::vector<float>& logits, SamplerSettings settings, int draws,
                        const RecentTokens& recent = {}) {
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
  EXPECT_EQ(Counts(logits, settings, 1, {.all = recent})[1], 1);
  settings.penalty_window = 1;
  const std::vector<TokenId> long_ago = {0, 2};
  EXPECT_EQ(Counts(logits, settings, 1, {.all = long_ago})[0], 1);
  settings.repeat_penalty = 1;
  settings.penalty_window = 256;
  settings.presence_penalty = 0.5F;
  const std::vector<TokenId> twice = {0, 0};  // counted once
  EXPECT_EQ(Counts(logits, settings, 1, {.all = twice})[1], 1);
}

SamplerSettings WithoutRepeats() {
  SamplerSettings settings = Plain();
  settings.temperature = 0;
  settings.dry_multiplier = 1;
  settings.dry_base = 2;
  settings.dry_allowed_length = 2;
  return settings;
}

// What `settings` take from the logit of each of `vocab` tokens after `written`.
std::vector<double> Taken(const std::vector<TokenId>& written, const SamplerSettings& settings,
                          size_t vocab) {
  std::vector<double> taken(vocab);
  SamplerScratch scratch(static_cast<int64_t>(vocab) + 1);
  for (size_t i = 0; i < vocab; ++i) {
    // Beside a rival of the same logit that no sequence names, the token loses once it is
    // penalised, and the rival's probability tells by how much. The others are out of reach.
    std::vector<float> logits(vocab + 1, -1000.0F);
    logits[i] = logits[vocab] = 0;
    const SampledToken best = SampleToken(logits, settings, {.written = written}, {0}, &scratch);
    if (best.token == static_cast<TokenId>(i)) continue;
    taken[i] = -std::log(std::expm1(-static_cast<double>(best.log_probability)));
  }
  return taken;
}

TEST(Sampler, TheSequencePenaltyGrowsWithWhatIsRepeated) {
  const SamplerSettings settings = WithoutRepeats();
  const auto expect = [&](const std::vector<TokenId>& written, const std::vector<double>& taken) {
    const std::vector<double> found = Taken(written, settings, taken.size());
    for (size_t i = 0; i < taken.size(); ++i) EXPECT_NEAR(found[i], taken[i], 1e-4) << i;
  };
  expect({}, {0, 0, 0, 0});
  expect({1}, {0, 0, 0, 0});
  expect({1, 2, 3, 1}, {0, 0, 0, 0});           // one token in a row may come again
  expect({1, 2, 3, 1, 2}, {0, 0, 0, 1});        // two may not
  expect({0, 1, 2, 3, 0, 1, 2}, {0, 0, 0, 2});  // three still less
  // Of two places the longer match counts, and each token has its own.
  expect({0, 1, 2, 3, 1, 2, 3, 1, 2, 0, 0, 1, 2}, {1, 0, 0, 2});
  expect({0, 0, 0, 0}, {2, 0, 0, 0});  // a match may overlap what it matches
}

TEST(Sampler, TheSequencePenaltyHearsOnlyTheModel) {
  const SamplerSettings settings = WithoutRepeats();
  const TokenId other = kNoToken;
  for (const std::vector<TokenId>& written : std::vector<std::vector<TokenId>>{
           {1, 2, other, 1, 2},     // another token followed
           {1, other, 3, 1, 2},     // another spoke within the sequence
           {1, 2, 3, 1, other, 2},  // or within what would repeat it
           {1, 2, 3, 1, 2, other},  // nothing of this answer is written yet
           {other, other, other, other}}) {
    for (const double taken : Taken(written, settings, 4)) EXPECT_EQ(taken, 0);
  }
}

// The same rule, place by place.
std::vector<double> TakenPlainly(const std::vector<TokenId>& written,
                                 const SamplerSettings& settings, size_t vocab) {
  std::vector<double> taken(vocab);
  for (size_t place = 0; place < written.size(); ++place) {
    if (written[place] == kNoToken) continue;
    size_t length = 0;
    while (length < place && written[place - 1 - length] != kNoToken &&
           written[place - 1 - length] == written[written.size() - 1 - length]) {
      ++length;
    }
    if (length < static_cast<size_t>(settings.dry_allowed_length)) continue;
    const double penalty = settings.dry_multiplier *
                           std::pow(static_cast<double>(settings.dry_base),
                                    static_cast<double>(length) - settings.dry_allowed_length);
    double& most = taken[static_cast<size_t>(written[place])];
    most = std::max(most, penalty);
  }
  return taken;
}

TEST(Sampler, TheSequencePenaltyEqualsItsPlainTwin) {
  SamplerSettings settings = WithoutRepeats();
  settings.dry_multiplier = 0.7F;
  settings.dry_base = 1.1F;
  uint64_t counter = 0;
  const auto below = [&counter](uint64_t limit) {
    return static_cast<TokenId>(RandomBits(11, 0, counter++) % limit);
  };
  for (int round = 0; round < 200; ++round) {
    settings.dry_allowed_length = 1 + below(3);
    std::vector<TokenId> written(static_cast<size_t>(below(60)));
    for (TokenId& token : written) token = below(20) == 0 ? kNoToken : below(3);
    const std::vector<double> found = Taken(written, settings, 4);
    const std::vector<double> plain = TakenPlainly(written, settings, 4);
    for (size_t i = 0; i < 4; ++i) EXPECT_NEAR(found[i], plain[i], 1e-3) << round;
  }
}

TEST(Sampler, ALongRepeatRulesATokenOut) {
  SamplerSettings settings = WithoutRepeats();
  settings.dry_base = 100;
  const std::vector<TokenId> written(kMaxPenaltyWindow, 1);
  const std::vector<float> logits = {-80, 80};
  SamplerScratch scratch(2);
  const SampledToken token = SampleToken(logits, settings, {.written = written}, {0}, &scratch);
  EXPECT_EQ(token.token, 0);
  EXPECT_TRUE(std::isfinite(token.log_probability));
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
    EXPECT_FALSE(CheckSamplerSettings({.dry_multiplier = bad}).ok());
    EXPECT_FALSE(CheckSamplerSettings({.dry_base = bad}).ok());
  }
  EXPECT_FALSE(CheckSamplerSettings({.top_k = -1}).ok());
  EXPECT_FALSE(CheckSamplerSettings({.presence_penalty = nan}).ok());
  EXPECT_FALSE(CheckSamplerSettings({.penalty_window = -1}).ok());
  EXPECT_FALSE(CheckSamplerSettings({.dry_allowed_length = 0}).ok());
  EXPECT_FALSE(CheckSamplerSettings({.dry_allowed_length = kMaxPenaltyWindow + 1}).ok());
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
