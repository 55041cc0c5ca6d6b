// End-to-end timings of the engine: the cases of `mooring bench`.
//
// Every case runs the engine as a chat does: same steps, same windows, greedy, no end tokens.
// Prompts are random ids with a fixed seed, because speed does not depend on what is said.
//
// Thread rule: as Engine.
#ifndef MOORING_BENCH_ENGINE_CASES_H_
#define MOORING_BENCH_ENGINE_CASES_H_

#include <atomic>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "base/function_ref.h"
#include "base/result.h"
#include "engine/engine.h"
#include "model/model.h"
#include "text/tokenizer.h"

namespace mooring {

struct BenchOptions {
  std::vector<std::string> cases;            // names; empty: all
  std::vector<int64_t> depths = {64, 4096};  // of decode and of append
  int64_t prompt_tokens = 512;               // of prefill
  int64_t decode_tokens = 64;
  int64_t endless_window = 2048;
  int64_t memory_window = 4096;
  int64_t batch = 4;  // conversations of batch
  int64_t age = 0;    // tokens that were said before: of decode, append, endless, batch, memory
  int repeat = 3;
  DType key_value = DType::kF16;
  std::string policy = "sinks";
  int32_t anchors = 4;
  const std::atomic<bool>* interrupted = nullptr;
};

// One measured case; what does not apply is empty. Numbers are medians over the repeats.
struct BenchResult {
  std::string name;
  std::optional<int64_t> tokens;
  std::optional<int64_t> depth;
  std::optional<int64_t> conversations;
  std::optional<int64_t> window;
  std::optional<double> tokens_per_second;
  std::optional<double> milliseconds;
  std::optional<double> median_step_ms;
  std::optional<double> p999_step_ms;
  std::optional<double> gb_per_second;    // weights and pages read
  std::optional<double> gmac_per_second;  // multiply-adds of projections and attention
  std::optional<uint64_t> pss_bytes;  // of the process, shared pages by share, file pages counted
};

// The names that `cases` may hold, in the order in which they run.
const std::vector<std::string>& BenchCaseNames();

// Runs the cases; `on_result` is called after each. kUsage for an unknown case or a depth beyond
// the model; kInterrupted.
Status RunBench(const Model& model, const Tokenizer& tokenizer, const BenchOptions& options,
                FunctionRef<void(const BenchResult&)> on_result);

}  // namespace mooring

#endif  // MOORING_BENCH_ENGINE_CASES_H_
