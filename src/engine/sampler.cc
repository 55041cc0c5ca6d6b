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

  void Penalise(std::span<const TokenId> recent);
  float LogitOf(TokenId token) const;
  void Collect();
  std::pair<float, TokenId> Largest() const;
  double LogSum() const;
  TokenId Draw(LogIndex index);
};

void SamplerPass::Penalise(std::span<const TokenId> recent) {
  auto& changed = scratch.changed_;
  changed.clear();
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

float SamplerPass::LogitOf(TokenId token) const {
  const auto& changed = scratch.changed_;
  const auto it = std::ranges::lower_bound(changed, token, {}, &std::pair<TokenId, float>::first);
  return it != changed.end() && it->first == token ? it->second
                                                   : logits[static_cast<size_t>(token)];
}

std::pair<float, TokenId> SamplerPass::Largest() const {
  std::pair<float, TokenId> best = {LogitOf(0), 0};
  auto changed = scratch.changed_.begin();
  for (size_t i = 0; i < logits.size(); ++i) {
    float logit = logits[i];
    if (changed != scratch.changed_.end() && changed->first == static_cast<TokenId>(i)) {
      logit = changed->second;
      ++changed;
    }
    if (logit > best.first) best = {logit, static_cast<TokenId>(i)};
  }
  return best;
}

void SamplerPass::Collect() {
  auto& candidates = scratch.candidates_;
  candidates.clear();
  for (size_t i = 0; i < logits.size(); ++i) {
    candidates.emplace_back(logits[i], static_cast<TokenId>(i));
  }
  for (const auto& [token, logit] : scratch.changed_) {
    candidates[static_cast<size_t>(token)].first = logit;
  }
}

double SamplerPass::LogSum() const {
  const double largest = Largest().first;
  double sum = 0;
  for (const float logit : logits) sum += std::exp(static_cast<double>(logit) - largest);
  for (const auto& [token, logit] : scratch.changed_) {
    sum += std::exp(static_cast<double>(logit) - largest) -
           std::exp(static_cast<double>(logits[static_cast<size_t>(token)]) - largest);
  }
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
  return {};
}

SampledToken SampleToken(std::span<const float> logits, const SamplerSettings& settings,
                         std::span<const TokenId> recent, LogIndex index, SamplerScratch* scratch) {
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
