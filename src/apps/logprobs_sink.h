// An answer with what else the model might have said: for each token the likeliest ones and their
// log-probabilities, as the model gave them, before any penalty or temperature.
//
// Thread rule: one thread.
#ifndef MOORING_APPS_LOGPROBS_SINK_H_
#define MOORING_APPS_LOGPROBS_SINK_H_

#include <span>
#include <vector>

#include "apps/output.h"
#include "apps/reply_output.h"
#include "text/tokenizer.h"

namespace mooring {

class LogprobsSink : public ReplySink {
 public:
  // `tokenizer` outlives this; `top_count` 0 takes no notes at all.
  LogprobsSink(const ReplyStyle& style, std::atomic<bool>* stop, const Tokenizer* tokenizer,
               size_t top_count)
      : ReplySink(style, stop), tokenizer_(tokenizer), top_count_(top_count) {}

  void OnLogits(LogIndex index, std::span<const float> logits) override;
  void OnToken(const SampledToken& token) override;

  // {"content": [{"token", "id", "logprob", "bytes", "top_logprobs": [...]}]}, or null.
  Json Logprobs() const;

 private:
  Json Entry(TokenId id) const;

  const Tokenizer* tokenizer_;
  size_t top_count_;
  std::vector<float> logits_;  // of the row that the next token is drawn from
  double log_sum_ = 0.0;
  Json content_ = Json::array();
};

}  // namespace mooring

#endif  // MOORING_APPS_LOGPROBS_SINK_H_
