// Perplexity over endless text: the loss of every token of a text that one conversation reads from
// end to end, in segments, and beside each segment the loss of the same tokens read from an empty
// window. The gain of the first over the second is what the window is worth; if it stays the same
// from the first segments to the last, nothing drifts.
//
// Both losses of a segment are means over the same tokens: all of it but its first, which an empty
// window cannot predict.
//
// Thread rule: as Engine.
#ifndef MOORING_EVAL_PERPLEXITY_H_
#define MOORING_EVAL_PERPLEXITY_H_

#include <atomic>
#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "base/function_ref.h"
#include "base/result.h"
#include "base/token.h"
#include "engine/engine.h"

namespace mooring {

struct PerplexityOptions {
  int64_t segment_tokens = 10000;
  bool fresh = true;  // also score each segment from an empty window
  const std::atomic<bool>* interrupted = nullptr;
};

struct PerplexitySegment {
  int64_t from = 0;  // [from, to) in tokens of the text
  int64_t to = 0;
  double mean_nll = 0.0;        // nats
  double fresh_mean_nll = 0.0;  // 0 when not asked for
};

struct PerplexityReport {
  int64_t tokens = 0;
  double mean_nll = 0.0;  // over every token but the first
  double perplexity = 0.0;
  double seconds = 0.0;  // of the streaming alone
  double tokens_per_second = 0.0;
  uint64_t resident_bytes_start = 0;  // of the process, once everything has been touched
  uint64_t resident_bytes_end = 0;
  std::vector<PerplexitySegment> segments;
};

// Called with each token's loss in order; the first token has none.
using LossFunction = FunctionRef<void(int64_t token, double loss)>;
// Called now and then with the tokens done and in all, both scorings counted.
using ProgressFunction = FunctionRef<void(int64_t done, int64_t total)>;

// Needs an engine of two conversations (one without `fresh`) and logit rows for every step row.
// kInterrupted when `interrupted` is set; kFailed when the policy's window is full.
Result<PerplexityReport> MeasurePerplexity(Engine& engine, std::span<const TokenId> tokens,
                                           const PerplexityOptions& options, LossFunction on_loss,
                                           ProgressFunction on_progress);

}  // namespace mooring

#endif  // MOORING_EVAL_PERPLEXITY_H_
