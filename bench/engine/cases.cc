#include "bench/engine/cases.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <memory>
#include <utility>

#include "base/clock.h"
#include "base/process_memory.h"
#include "base/random.h"
#include "bench/engine/cost.h"

namespace mooring {
namespace {

constexpr uint64_t kPromptSeed = 20240229;
constexpr int64_t kAppendTokens = 32;
constexpr int64_t kBatchDepth = 256;

double Median(std::vector<double> values) {
  if (values.empty()) return 0;
  std::ranges::sort(values);
  const size_t middle = values.size() / 2;
  return values.size() % 2 == 1 ? values[middle] : (values[middle - 1] + values[middle]) / 2;
}

double Quantile(std::vector<double> values, double share) {
  if (values.empty()) return 0;
  std::ranges::sort(values);
  const auto at = static_cast<size_t>(std::ceil(share * static_cast<double>(values.size())));
  return values[std::clamp<size_t>(at, 1, values.size()) - 1];
}

// One engine with conversations that have been read to some depth.
class Bench {
 public:
  Bench(const Model& model, const Tokenizer& tokenizer, const BenchOptions& options)
      : model_(model), tokenizer_(tokenizer), options_(options) {}

  Status Prefill(BenchResult* result);
  Status Decode(int64_t depth, int64_t window, BenchResult* result);
  Status Append(int64_t depth, BenchResult* result);
  Status Batch(BenchResult* result);
  Status Memory(BenchResult* result);

 private:
  Status Start(int64_t window, int conversations) {
    ids_.clear();
    auto engine = Engine::Create(
        &model_, &tokenizer_,
        {.policy = options_.policy,
         .window = {.capacity = static_cast<int32_t>(window), .anchors = options_.anchors},
         .key_value = options_.key_value,
         .conversations = conversations,
         .logit_rows = conversations});
    if (!engine.ok()) return engine.error();
    engine_ = std::move(engine).value();
    for (int i = 0; i < conversations; ++i) {
      MOORING_ASSIGN_OR_RETURN(const ConversationId id, engine_->Open());
      ids_.push_back(id);
    }
    return {};
  }

  std::vector<TokenId> Prompt(int64_t count) {
    std::vector<TokenId> tokens(static_cast<size_t>(count));
    for (TokenId& token : tokens) {
      token = static_cast<TokenId>(RandomBits(kPromptSeed, 0, drawn_++) %
                                   static_cast<uint64_t>(model_.arch().vocab_size));
    }
    return tokens;
  }

  // Every conversation reads `count` tokens, then all generate together; returns milliseconds and
  // leaves the time of each step in `steps_`.
  Result<double> Turn(int64_t count, int64_t generate) {
    for (const ConversationId id : ids_) {
      TurnRequest request;
      request.tokens = Prompt(count);
      request.max_tokens = generate;
      request.sampler.temperature = 0;
      MOORING_RETURN_IF_ERROR(engine_->Submit(id, std::move(request), &sink_));
    }
    steps_.clear();
    const double start = MonotonicSeconds();
    double last = start;
    while (engine_->Step()) {
      const double now = MonotonicSeconds();
      steps_.push_back((now - last) * 1e3);
      last = now;
      if (options_.interrupted != nullptr && options_.interrupted->load()) {
        return Error{.kind = ErrorKind::kInterrupted, .what = "interrupted"};
      }
    }
    return (last - start) * 1e3;
  }

  // Reads a prompt that is not timed, and grows as old as asked for.
  Status Warm(int64_t count) {
    const Result<double> milliseconds = Turn(count, 1);
    if (!milliseconds.ok()) return milliseconds.error();
    if (options_.age == 0) return {};
    if (count <= options_.anchors) {
      return Error{.kind = ErrorKind::kUsage,
                   .what = "a conversation ages once its anchors are read",
                   .where = "--lengths",
                   .expected = fmt::format("more than {} with --age", options_.anchors),
                   .found = fmt::format("{}", count)};
    }
    for (const ConversationId id : ids_) {
      engine_->Age(id, (options_.age + kAlikeTokens - 1) / kAlikeTokens * kAlikeTokens);
    }
    return {};
  }

  // The rates of `steps` alike steps in `milliseconds`.
  void AddRates(double milliseconds, double steps, const StepShape& shape,
                BenchResult* result) const {
    const StepCost cost = CostOfStep(model_, options_.key_value, shape);
    result->gmac_per_second = steps * cost.macs / milliseconds / 1e6;
    result->gb_per_second = steps * cost.bytes / milliseconds / 1e6;
  }

  const Model& model_;
  const Tokenizer& tokenizer_;
  const BenchOptions& options_;
  std::unique_ptr<Engine> engine_;
  std::vector<ConversationId> ids_;
  std::vector<double> steps_;
  uint64_t drawn_ = 0;
  Sink sink_;
};

Status Bench::Prefill(BenchResult* result) {
  const int64_t count = options_.prompt_tokens;
  std::vector<double> times;
  for (int i = 0; i <= options_.repeat; ++i) {  // the first one warms up
    MOORING_RETURN_IF_ERROR(Start(std::min(model_.arch().trained_window, count + 64), 1));
    MOORING_ASSIGN_OR_RETURN(const double ms, Turn(count, 1));
    if (i > 0) times.push_back(ms);
  }
  const double ms = Median(times);
  result->tokens = count;
  result->milliseconds = ms;
  result->tokens_per_second = static_cast<double>(count) / ms * 1e3;
  const auto steps = static_cast<double>(steps_.size());
  AddRates(ms, steps,
           {.rows = static_cast<double>(count) / steps,
            .logit_rows = 1.0 / steps,
            .attended = static_cast<double>(count) / 2},
           result);
  return {};
}

Status Bench::Decode(int64_t depth, int64_t window, BenchResult* result) {
  MOORING_RETURN_IF_ERROR(Start(window, 1));
  MOORING_RETURN_IF_ERROR(Warm(depth));
  std::vector<double> rates;
  std::vector<double> all_steps;
  double total_ms = 0;
  for (int i = 0; i < options_.repeat; ++i) {
    MOORING_ASSIGN_OR_RETURN(const double ms, Turn(0, options_.decode_tokens));
    rates.push_back(static_cast<double>(options_.decode_tokens) / ms * 1e3);
    all_steps.insert(all_steps.end(), steps_.begin(), steps_.end());
    total_ms += ms;
  }
  result->tokens = options_.decode_tokens;
  result->depth = depth;
  result->window = window;
  result->tokens_per_second = Median(rates);
  result->median_step_ms = Median(all_steps);
  result->p999_step_ms = Quantile(all_steps, 0.999);
  const auto steps = static_cast<double>(all_steps.size());
  AddRates(total_ms, steps, {.attended = static_cast<double>(std::min(depth, window))}, result);
  return {};
}

Status Bench::Append(int64_t depth, BenchResult* result) {
  std::vector<double> times;
  MOORING_RETURN_IF_ERROR(Start(std::min(model_.arch().trained_window, depth + 1024), 1));
  MOORING_RETURN_IF_ERROR(Warm(depth));
  for (int i = 0; i < options_.repeat; ++i) {
    MOORING_ASSIGN_OR_RETURN(const double ms, Turn(kAppendTokens, 1));
    times.push_back(ms);
  }
  result->tokens = kAppendTokens;
  result->depth = depth;
  result->milliseconds = Median(times);
  result->tokens_per_second = static_cast<double>(kAppendTokens) / Median(times) * 1e3;
  return {};
}

Status Bench::Batch(BenchResult* result) {
  MOORING_RETURN_IF_ERROR(Start(kBatchDepth * 2 + options_.decode_tokens * options_.repeat,
                                static_cast<int>(options_.batch)));
  MOORING_RETURN_IF_ERROR(Warm(kBatchDepth));
  std::vector<double> rates;
  double total_ms = 0;
  double steps = 0;
  const auto rows = static_cast<double>(options_.batch);
  for (int i = 0; i < options_.repeat; ++i) {
    MOORING_ASSIGN_OR_RETURN(const double ms, Turn(0, options_.decode_tokens));
    rates.push_back(rows * static_cast<double>(options_.decode_tokens) / ms * 1e3);
    total_ms += ms;
    steps += static_cast<double>(steps_.size());
  }
  result->conversations = options_.batch;
  result->depth = kBatchDepth;
  result->tokens_per_second = Median(rates);
  AddRates(total_ms, steps,
           {.rows = rows,
            .logit_rows = rows,
            .conversations = rows,
            .attended = static_cast<double>(kBatchDepth)},
           result);
  return {};
}

Status Bench::Memory(BenchResult* result) {
  const int64_t window = std::min(model_.arch().trained_window, options_.memory_window);
  MOORING_RETURN_IF_ERROR(Start(window, 1));
  MOORING_RETURN_IF_ERROR(Warm(window));
  result->window = window;
  result->pss_bytes = PssBytes();
  return {};
}

}  // namespace

const std::vector<std::string>& BenchCaseNames() {
  static const std::vector<std::string> kNames = {"prefill", "decode", "append",
                                                  "endless", "batch",  "memory"};
  return kNames;
}

Status RunBench(const Model& model, const Tokenizer& tokenizer, const BenchOptions& options,
                FunctionRef<void(const BenchResult&)> on_result) {
  const std::vector<std::string>& names = BenchCaseNames();
  for (const std::string& name : options.cases) {
    if (std::ranges::find(names, name) != names.end()) continue;
    return Error{.kind = ErrorKind::kUsage,
                 .what = "unknown case",
                 .where = "--cases",
                 .expected = fmt::format("{}", fmt::join(names, ", ")),
                 .found = name};
  }
  Bench bench(model, tokenizer, options);
  for (const std::string& name : names) {
    if (!options.cases.empty() && std::ranges::find(options.cases, name) == options.cases.end()) {
      continue;
    }
    const bool by_depth = name == "decode" || name == "append";
    const std::vector<int64_t> once = {0};
    for (const int64_t depth : by_depth ? options.depths : once) {
      BenchResult result;
      result.name = name;
      Status status;
      if (name == "prefill") status = bench.Prefill(&result);
      if (name == "decode") {
        status = bench.Decode(depth,
                              std::min(model.arch().trained_window,
                                       depth + 64 + options.decode_tokens * options.repeat),
                              &result);
      }
      if (name == "append") status = bench.Append(depth, &result);
      if (name == "endless") {
        status = bench.Decode(options.endless_window + 64, options.endless_window, &result);
      }
      if (name == "batch") status = bench.Batch(&result);
      if (name == "memory") status = bench.Memory(&result);
      if (!status.ok()) return status;
      on_result(result);
    }
  }
  return {};
}

}  // namespace mooring
