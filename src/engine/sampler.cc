#include "engine/sampler.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <string>

#include "base/check.h"
#include "base/random.h"

namespace mooring {
namespace {

// Draws of the sampler come from their own stream of the seed.
constexpr uint64_t kSampleStream = 1;

// Enough to rule a token out, and far from where a float overflows.
constexpr double kLargestPenalty = 1e6;

Error OutOfRange(std::string_view field, std::string_view expected, double found) {
  return Error{.kind = ErrorKind::kUsage,
               .what = "a sampling setting is out of range",
               .where = std::string(field),
               .expected = std::string(expected),
               .found = fmt::format("{}", found)};
}

bool Larger(const std::pair<float, TokenId>& a, const std::pair<float, TokenId>& b) {
  return a.first > b.first || (a.first == b.first && a.second < b.second);
}

}  // namespace

// One call of SampleToken. `logits` are the caller's; what penalties change is kept beside them.
struct SamplerPass {
  std::span<const float> logits;
  const SamplerSettings& settings;
  SamplerScratch& scratch;

  void Penalise(const RecentTokens& recent);
  void PenaliseTokens(std::span<const TokenId> recent);
  void PenaliseRepeats(std::span<const TokenId> written);
  void FindRepeats(std::span<const TokenId> written);
  float LogitOf(TokenId token) const;
  // Calls with each token and its logit after the penalties, in order of the tokens.
  template <typename Function>
  void ForEachLogit(Function function) const;
  void Collect();
  std::pair<float, TokenId> Largest() const;
  double LogSum() const;
  TokenId Draw(LogIndex index);
};

void SamplerPass::Penalise(const RecentTokens& recent) {
  scratch.changed_.clear();
  PenaliseTokens(recent.all);
  PenaliseRepeats(recent.written);
}

void SamplerPass::PenaliseTokens(std::span<const TokenId> recent) {
  auto& changed = scratch.changed_;
  if (settings.repeat_penalty == 1.0F && settings.presence_penalty == 0.0F) return;
  const auto window = std::min(recent.size(), static_cast<size_t>(settings.penalty_window));
  for (const TokenId token : recent.subspan(recent.size() - window))
    changed.emplace_back(token, 0.0F);
  std::ranges::sort(changed, {}, &std::pair<TokenId, float>::first);
  changed.erase(std::unique(changed.begin(), changed.end(),
                            [](const auto& a, const auto& b) { return a.first == b.first; }),
                changed.end());
  for (auto& [token, logit] : changed) {
    logit = logits[static_cast<size_t>(token)];
    logit = logit > 0 ? logit / settings.repeat_penalty : logit * settings.repeat_penalty;
    logit -= settings.presence_penalty;
  }
}

void SamplerPass::PenaliseRepeats(std::span<const TokenId> written) {
  if (settings.dry_multiplier == 0.0F) return;
  FindRepeats(written);
  auto& changed = scratch.changed_;
  const auto others = static_cast<std::ptrdiff_t>(changed.size());  // sorted
  for (const auto& [token, length] : scratch.repeats_) {
    const double penalty =
        std::min(settings.dry_multiplier * std::pow(static_cast<double>(settings.dry_base),
                                                    length - settings.dry_allowed_length),
                 kLargestPenalty);
    const auto end = changed.begin() + others;
    const auto it = std::ranges::lower_bound(changed.begin(), end, token, {},
                                             &std::pair<TokenId, float>::first);
    if (it != end && it->first == token) {
      it->second -= static_cast<float>(penalty);
    } else {
      changed.emplace_back(token, logits[static_cast<size_t>(token)] - static_cast<float>(penalty));
    }
  }
  std::ranges::sort(changed, {}, &std::pair<TokenId, float>::first);
}

// Each token that would go on with an earlier sequence, once, with the longest such sequence.
// Read backwards, the last tokens are a prefix, and how much of it stands at each other place is
// the Z-function (Gusfield 1997, section 1.3), in time linear in the window.
void SamplerPass::FindRepeats(std::span<const TokenId> written) {
  auto& repeats = scratch.repeats_;
  auto& matches = scratch.matches_;
  repeats.clear();
  const auto backwards = [&written](size_t i) { return written[written.size() - 1 - i]; };
  size_t own = 0;  // how many of the last tokens the model wrote: no sequence is longer
  while (own < written.size() && backwards(own) != kNoToken) ++own;
  if (own < static_cast<size_t>(settings.dry_allowed_length)) return;
  matches.assign(written.size(), 0);
  size_t left = 0;
  size_t right = 0;  // [left, right) is the match that reaches furthest
  for (size_t i = 1; i < written.size(); ++i) {
    size_t length =
        i < right ? std::min(right - i, static_cast<size_t>(matches[i - left])) : size_t{0};
    while (length < own && i + length < written.size() &&
           backwards(length) == backwards(i + length)) {
      ++length;
    }
    matches[i] = static_cast<int32_t>(length);
    if (i + length > right) {
      left = i;
      right = i + length;
    }
    const TokenId next = backwards(i - 1);
    if (matches[i] >= settings.dry_allowed_length && next != kNoToken) {
      repeats.emplace_back(next, matches[i]);
    }
  }
  // The longest sequence of each token first, so that it is the one that stays.
  std::ranges::sort(repeats, [](const auto& a, const auto& b) {
    return a.first < b.first || (a.first == b.first && a.second > b.second);
  });
  repeats.erase(std::unique(repeats.begin(), repeats.end(),
                            [](const auto& a, const auto& b) { return a.first == b.first; }),
                repeats.end());
}

float SamplerPass::LogitOf(TokenId token) const {
  const auto& changed = scratch.changed_;
  const auto it = std::ranges::lower_bound(changed, token, {}, &std::pair<TokenId, float>::first);
  return it != changed.end() && it->first == token ? it->second
                                                   : logits[static_cast<size_t>(token)];
}

template <typename Function>
void SamplerPass::ForEachLogit(Function function) const {
  auto changed = scratch.changed_.begin();
  for (size_t i = 0; i < logits.size(); ++i) {
    const auto token = static_cast<TokenId>(i);
    const bool replaced = changed != scratch.changed_.end() && changed->first == token;
    function(token, replaced ? changed->second : logits[i]);
    if (replaced) ++changed;
  }
}

std::pair<float, TokenId> SamplerPass::Largest() const {
  std::pair<float, TokenId> best = {LogitOf(0), 0};
  ForEachLogit([&best](TokenId token, float logit) {
    if (logit > best.first) best = {logit, token};
  });
  return best;
}

void SamplerPass::Collect() {
  auto& candidates = scratch.candidates_;
  candidates.clear();
  ForEachLogit(
      [&candidates](TokenId token, float logit) { candidates.emplace_back(logit, token); });
}

double SamplerPass::LogSum() const {
  const double largest = Largest().first;
  double sum = 0;
  ForEachLogit([&sum, largest](TokenId /*token*/, float logit) {
    sum += std::exp(static_cast<double>(logit) - largest);
  });
  return largest + std::log(sum);
}

TokenId SamplerPass::Draw(LogIndex index) {
  auto& candidates = scratch.candidates_;
  Collect();
  size_t kept = candidates.size();
  if (settings.top_k > 0 && static_cast<size_t>(settings.top_k) < kept) {
    kept = static_cast<size_t>(settings.top_k);
    std::ranges::nth_element(candidates, candidates.begin() + static_cast<std::ptrdiff_t>(kept),
                             Larger);
  }
  std::sort(candidates.begin(), candidates.begin() + static_cast<std::ptrdiff_t>(kept), Larger);
  // Weights relative to the best; nucleus and min-p cut the sorted list.
  const double best = candidates[0].first;
  const double temperature = settings.temperature;
  const auto weight = [&](size_t i) {
    return std::exp((static_cast<double>(candidates[i].first) - best) / temperature);
  };
  double total = 0;
  for (size_t i = 0; i < kept; ++i) total += weight(i);
  double mass = 0;
  size_t end = 0;
  while (end < kept) {
    const double w = weight(end);
    if (end > 0 && (w < settings.min_p || mass >= settings.top_p * total)) break;
    mass += w;
    ++end;
  }
  double left =
      mass * RandomUniform(settings.seed, kSampleStream, static_cast<uint64_t>(index.value));
  for (size_t i = 0; i < end; ++i) {
    left -= weight(i);
    if (left < 0) return candidates[i].second;
  }
  return candidates[end - 1].second;
}

SamplerScratch::SamplerScratch(int64_t vocab_size) {
  candidates_.reserve(static_cast<size_t>(vocab_size));
  changed_.reserve(2 * size_t{kMaxPenaltyWindow});
  repeats_.reserve(kMaxPenaltyWindow);
  matches_.reserve(kMaxPenaltyWindow);
}

Status CheckSamplerSettings(const SamplerSettings& settings) {
  const auto within = [](float value, float low, float high) {
    return std::isfinite(value) && value >= low && value <= high;
  };
  if (!within(settings.temperature, 0, 100)) {
    return OutOfRange("temperature", "0 to 100", settings.temperature);
  }
  if (!within(settings.top_p, 0, 1) || settings.top_p == 0) {
    return OutOfRange("top_p", "more than 0 and at most 1", settings.top_p);
  }
  if (settings.top_k < 0) return OutOfRange("top_k", "0 or more", settings.top_k);
  if (!within(settings.min_p, 0, 1) || settings.min_p == 1) {
    return OutOfRange("min_p", "0 or more and less than 1", settings.min_p);
  }
  if (!within(settings.repeat_penalty, 0.01F, 100)) {
    return OutOfRange("repeat_penalty", "0.01 to 100", settings.repeat_penalty);
  }
  if (!within(settings.presence_penalty, -100, 100)) {
    return OutOfRange("presence_penalty", "-100 to 100", settings.presence_penalty);
  }
  if (settings.penalty_window < 0 || settings.penalty_window > kMaxPenaltyWindow) {
    return OutOfRange("penalty_window", fmt::format("0 to {}", kMaxPenaltyWindow),
                      settings.penalty_window);
  }
  if (!within(settings.dry_multiplier, 0, 100)) {
    return OutOfRange("dry_multiplier", "0 to 100", settings.dry_multiplier);
  }
  if (!within(settings.dry_base, 1, 100)) {
    return OutOfRange("dry_base", "1 to 100", settings.dry_base);
  }
  if (settings.dry_allowed_length < 1 || settings.dry_allowed_length > kMaxPenaltyWindow) {
    return OutOfRange("dry_allowed_length", fmt::format("1 to {}", kMaxPenaltyWindow),
                      settings.dry_allowed_length);
  }
  return {};
}

SampledToken SampleToken(std::span<const float> logits, const SamplerSettings& settings,
                         const RecentTokens& recent, LogIndex index, SamplerScratch* scratch) {
  CHECK(!logits.empty());
  SamplerPass pass{logits, settings, *scratch};
  pass.Penalise(recent);
  const TokenId token = settings.temperature == 0.0F ? pass.Largest().second : pass.Draw(index);
  return {token, static_cast<float>(static_cast<double>(pass.LogitOf(token)) - pass.LogSum())};
}

bool AllFinite(std::span<const float> logits) {
  // x * 0 is 0 for every finite x and NaN for the rest, so one sum tells.
  float sum = 0;
  for (const float logit : logits) sum += logit * 0.0F;
  return sum == 0.0F;
}

}  // namespace mooring
