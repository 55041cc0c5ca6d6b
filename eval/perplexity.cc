#include "eval/perplexity.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <utility>

#include "base/clock.h"
#include "base/process_memory.h"

namespace mooring {
namespace {

// Tokens given to the engine at once: the reader looks up after each, for progress and Ctrl-C.
constexpr int64_t kTurnTokens = 512;

// Turns logits into losses of the tokens that really followed.
class LossSink : public Sink {
 public:
  LossSink(const Kernels& kernels, std::span<const TokenId> tokens, int64_t offset)
      : kernels_(kernels), tokens_(tokens), offset_(offset) {}

  // Losses of tokens [first, last) are added to the sum, and given to `on_loss` when it is set.
  void Collect(int64_t first, int64_t last, const LossFunction* on_loss) {
    first_ = first;
    last_ = last;
    on_loss_ = on_loss;
    sum_ = 0.0;
  }
  double sum() const { return sum_; }
  TurnEnd end() const { return end_; }

  void OnLogits(LogIndex index, std::span<const float> logits) override {
    const int64_t next = offset_ + index.value + 1;
    if (next >= static_cast<int64_t>(tokens_.size())) return;
    const double loss =
        kernels_.LogSumExp(logits.data(), static_cast<int64_t>(logits.size())) -
        static_cast<double>(logits[static_cast<size_t>(tokens_[static_cast<size_t>(next)])]);
    if (next >= first_ && next < last_) sum_ += loss;
    if (on_loss_ != nullptr) (*on_loss_)(next, loss);
  }
  void OnEnd(TurnEnd end, const TurnStats& /*stats*/) override { end_ = end; }

 private:
  const Kernels& kernels_;
  std::span<const TokenId> tokens_;
  int64_t offset_;  // text index of the conversation's first token
  int64_t first_ = 0;
  int64_t last_ = 0;
  const LossFunction* on_loss_ = nullptr;
  double sum_ = 0.0;
  TurnEnd end_ = TurnEnd::kLength;
};

class Reader {
 public:
  Reader(Engine& engine, std::span<const TokenId> tokens, const PerplexityOptions& options,
         ProgressFunction on_progress)
      : engine_(engine), tokens_(tokens), options_(options), on_progress_(on_progress) {
    total_ = static_cast<int64_t>(tokens.size()) * (options.fresh ? 2 : 1);
  }

  // Lets the conversation read tokens [from, to).
  Status Read(ConversationId id, int64_t from, int64_t to, LossSink* sink) {
    for (int64_t at = from; at < to;) {
      const int64_t end = std::min(at + kTurnTokens, to);
      TurnRequest request;
      request.tokens.assign(tokens_.begin() + at, tokens_.begin() + end);
      request.every_logit = true;
      MOORING_RETURN_IF_ERROR(engine_.Submit(id, std::move(request), sink));
      engine_.RunUntilIdle(id);
      if (sink->end() != TurnEnd::kLength) {
        return Error{
            .kind = ErrorKind::kFailed,
            .what = fmt::format("the text could not be read to its end: {}", NameOf(sink->end())),
            .where = fmt::format("token {}", at),
            .remedy = "use --policy sinks, a larger --window or fewer --tokens"};
      }
      done_ += end - at;
      at = end;
      on_progress_(done_, total_);
      if (options_.interrupted != nullptr && options_.interrupted->load()) {
        return Error{.kind = ErrorKind::kInterrupted, .what = "interrupted"};
      }
    }
    return {};
  }

 private:
  Engine& engine_;
  std::span<const TokenId> tokens_;
  const PerplexityOptions& options_;
  ProgressFunction on_progress_;
  int64_t done_ = 0;
  int64_t total_ = 0;
};

Result<double> FreshLoss(Engine& engine, Reader& reader, std::span<const TokenId> tokens,
                         const PerplexitySegment& segment) {
  MOORING_ASSIGN_OR_RETURN(const ConversationId id, engine.Open());
  LossSink sink(engine.model().backend().kernels(), tokens, segment.from);
  sink.Collect(segment.from + 1, segment.to, nullptr);
  const Status read = reader.Read(id, segment.from, segment.to, &sink);
  engine.Close(id);
  if (!read.ok()) return read.error();
  return sink.sum();
}

}  // namespace

Result<PerplexityReport> MeasurePerplexity(Engine& engine, std::span<const TokenId> tokens,
                                           const PerplexityOptions& options, LossFunction on_loss,
                                           ProgressFunction on_progress) {
  const auto count = static_cast<int64_t>(tokens.size());
  if (count < 2 || options.segment_tokens < 2) {
    return Error{.kind = ErrorKind::kUsage,
                 .what = "too little text to measure",
                 .where = count < 2 ? "text" : "segment",
                 .expected = "at least 2 tokens",
                 .found = fmt::format("{}", count < 2 ? count : options.segment_tokens)};
  }
  PerplexityReport report;
  report.tokens = count;
  report.segments.reserve(static_cast<size_t>(count / options.segment_tokens + 1));
  Reader reader(engine, tokens, options, on_progress);
  MOORING_ASSIGN_OR_RETURN(const ConversationId id, engine.Open());
  LossSink sink(engine.model().backend().kernels(), tokens, 0);
  double total = 0.0;
  int64_t scored_tokens = 0;
  const auto sum_up = [&](int64_t token, double loss) {
    total += loss;
    ++scored_tokens;
    on_loss(token, loss);
  };
  const LossFunction every_loss = sum_up;
  for (int64_t from = 0; from < count; from += options.segment_tokens) {
    PerplexitySegment segment{.from = from, .to = std::min(from + options.segment_tokens, count)};
    if (segment.to - segment.from < 2) break;  // a rest of one token says nothing
    const auto scored = static_cast<double>(segment.to - segment.from - 1);
    sink.Collect(segment.from + 1, segment.to, &every_loss);
    const double start = MonotonicSeconds();
    MOORING_RETURN_IF_ERROR(reader.Read(id, segment.from, segment.to, &sink));
    report.seconds += MonotonicSeconds() - start;
    segment.mean_nll = sink.sum() / scored;
    if (options.fresh) {
      MOORING_ASSIGN_OR_RETURN(const double sum, FreshLoss(engine, reader, tokens, segment));
      segment.fresh_mean_nll = sum / scored;
    }
    report.segments.push_back(segment);
    if (from == 0) report.resident_bytes_start = ResidentBytes();
  }
  report.resident_bytes_end = ResidentBytes();
  engine.Close(id);
  report.mean_nll = total / static_cast<double>(scored_tokens);
  report.perplexity = std::exp(report.mean_nll);
  report.tokens_per_second = static_cast<double>(count) / std::max(report.seconds, 1e-9);
  return report;
}

}  // namespace mooring
