// What a caller asks of a conversation and what it is told: plain data and one interface.
//
// Thread rule: a Sink is called on the thread that runs Engine::Step, and must not call the engine
// back, except Cancel.
#ifndef MOORING_ENGINE_TURN_H_
#define MOORING_ENGINE_TURN_H_

#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "base/token.h"
#include "engine/sampler.h"
#include "memory/policy.h"
#include "tensor/position.h"

namespace mooring {

enum class TurnEnd : uint8_t {
  kStop,          // the model ended its turn
  kStopString,    // a stop string came; it is neither sent nor in the log
  kLength,        // max_tokens were generated (or nothing was asked for: all was read)
  kCancelled,     // Cancel
  kWindowFull,    // the policy keeps everything and the window is full
  kOutOfPages,    // no pages are free and nothing that runs will free any
  kNumericError,  // logits were not finite; the token was not taken
};
std::string_view NameOf(TurnEnd end);

struct TurnRequest {
  std::vector<TokenId> tokens;  // read first; may be empty to go on where the log ends
  // The tokens begin a message of the user. Spans that were found for it may be called back before
  // it is read; from the worst to the best, each within the log and at most `recalled` tokens long.
  bool message_start = false;
  std::vector<OfferedSpan> found = {};
  // A conversation that begins with this turn may share its first pages with others whose turns
  // carried the same name. Empty: shares nothing.
  std::string shares_as = {};
  int64_t max_tokens = 0;  // to generate then; 0: read only
  SamplerSettings sampler;
  std::vector<std::string> stop;    // at most kMaxStopStrings, each at most kMaxStopBytes
  std::vector<TokenId> end_tokens;  // any of these ends the turn; logged, not shown
  bool every_logit = false;         // OnLogits for every row, not only those that are sampled
};
inline constexpr size_t kMaxStopStrings = 16;
inline constexpr size_t kMaxStopBytes = 256;

struct TurnStats {
  int64_t read_tokens = 0;
  int64_t generated_tokens = 0;
  int64_t reread_tokens = 0;      // of spans that were called back
  int64_t shared_tokens = 0;      // not read: their pages were there
  double read_seconds = 0.0;      // until the first token was sampled
  double generate_seconds = 0.0;  // from then on
};

class Sink {
 public:
  virtual ~Sink() = default;
  // Whole UTF-8, without stop strings and special tokens. Never empty.
  virtual void OnText(std::string_view /*text*/) {}
  // Every token taken, also one that is not shown.
  virtual void OnToken(const SampledToken& /*token*/) {}
  // The logits [vocab] after the token at `index`: what the model expects at index + 1.
  virtual void OnLogits(LogIndex /*index*/, std::span<const float> /*logits*/) {}
  // What stands in the window again for this message, before the message is read; also when there
  // is nothing.
  virtual void OnRecall(std::span<const RecalledSpan> /*recalled*/) {}
  // The last call of a turn.
  virtual void OnEnd(TurnEnd /*end*/, const TurnStats& /*stats*/) {}
};

}  // namespace mooring

#endif  // MOORING_ENGINE_TURN_H_
