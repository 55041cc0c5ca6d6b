// From logits to a token. Pure: the same inputs give the same token, so a run can be replayed.
//
// Order: penalties over the recent tokens; then, at temperature 0, the largest logit; else
// temperature, top-k, top-p (nucleus, Holtzman et al. 2020), min-p, and one draw.
//
// In a talk without end the window fills with the model's own answers, and a small model soon
// copies them word by word. The sequence penalty ("DRY", text-generation-webui, 2024) prevents
// that: where the last m tokens that the model wrote stand earlier in what it wrote, the token that
// followed them there loses dry_multiplier * dry_base ^ (m - dry_allowed_length), for m of at least
// dry_allowed_length. It looks at the model's own text only, so that what a person said may be
// quoted, and a match ends where another spoke.
//
// Thread rule: pure functions; a SamplerScratch belongs to one call at a time.
#ifndef MOORING_ENGINE_SAMPLER_H_
#define MOORING_ENGINE_SAMPLER_H_

#include <cstdint>
#include <span>
#include <utility>
#include <vector>

#include "base/result.h"
#include "base/token.h"
#include "tensor/position.h"

namespace mooring {

inline constexpr int32_t kMaxPenaltyWindow = 4096;

struct SamplerSettings {
  float temperature = 0.7F;  // 0: greedy
  float top_p = 0.95F;       // (0, 1]; 1: off
  int32_t top_k = 40;        // 0: off
  float min_p = 0.05F;       // [0, 1); 0: off
  float repeat_penalty =
      1.0F;  // > 0; 1: off. Divides positive logits of recent tokens (CTRL, 2019)
  float presence_penalty = 0.0F;   // subtracted once from each token among the recent ones
  int32_t penalty_window = 256;    // how many recent tokens the two penalties look at
  float dry_multiplier = 0.0F;     // >= 0; 0: no sequence penalty. It looks at kMaxPenaltyWindow
  float dry_base = 1.75F;          // >= 1
  int32_t dry_allowed_length = 4;  // > 0
  uint64_t seed = 0;

  friend bool operator==(const SamplerSettings&, const SamplerSettings&) = default;
};

// kUsage naming the field, the limits and the value.
Status CheckSamplerSettings(const SamplerSettings& settings);

// Buffers for one vocabulary, so that a draw allocates nothing.
class SamplerScratch {
 public:
  explicit SamplerScratch(int64_t vocab_size);

 private:
  friend struct SamplerPass;
  std::vector<std::pair<float, TokenId>> candidates_;  // logit, id
  std::vector<std::pair<TokenId, float>> changed_;     // logits that the penalties replaced
  std::vector<std::pair<TokenId, int32_t>> repeats_;   // what would repeat how long a sequence
  std::vector<int32_t> matches_;                       // the Z-function, see FindRepeats
};

struct SampledToken {
  TokenId token = 0;
  float log_probability = 0.0F;  // under the whole vocabulary, after penalties, at temperature 1
};

// The end of a log, newest last; at most kMaxPenaltyWindow tokens each.
struct RecentTokens {
  std::span<const TokenId> all = {};  // only the last penalty_window of them count
  std::span<const TokenId> written =
      {};  // kNoToken where the model did not write, or may repeat, one
};

// The token at `index` of the log. Ties go to the smaller id. REQUIRES: finite logits, checked
// settings.
SampledToken SampleToken(std::span<const float> logits, const SamplerSettings& settings,
                         const RecentTokens& recent, LogIndex index, SamplerScratch* scratch);

// Whether every logit is finite: checked before a row is trusted.
bool AllFinite(std::span<const float> logits);

}  // namespace mooring

#endif  // MOORING_ENGINE_SAMPLER_H_
