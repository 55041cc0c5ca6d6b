// bench: how fast this machine runs a model, as a function of the length of the conversation.

#include <fmt/format.h>

#include <algorithm>
#include <thread>
#include <utility>

#include "apps/flag_values.h"
#include "apps/measure_commands.h"
#include "apps/output.h"
#include "apps/runtime.h"
#include "bench/engine/cases.h"
#include "bench/engine/ceilings.h"

namespace mooring {
namespace {

constexpr int64_t kMost = 1 << 24;

constexpr CommandFlag kFlags[] = {
    {.name = "cases",
     .letter = 0,
     .value = "LIST",
     .help = "of prefill, decode, append, endless, batch, memory; all if not given"},
    {.name = "lengths",
     .letter = 0,
     .value = "LIST",
     .help = "depths of decode and append (64,4096)"},
    {.name = "batch", .letter = 0, .value = "N", .help = "conversations of the case batch (4)"},
    {.name = "age",
     .letter = 0,
     .value = "N",
     .help = "tokens that the conversations are older by than what they read (0)"},
    {.name = "repeat", .letter = 0, .value = "N", .help = "timed runs of each case (3)"},
};

template <typename T>
void Put(Json* json, const char* key, const std::optional<T>& value) {
  if (value) (*json)[key] = *value;
}

// How near the case came to the nearer of the two ceilings; empty where it has no rates.
std::optional<double> ShareOfCeiling(const BenchResult& result, const Ceilings& ceilings) {
  if (!result.gb_per_second || !result.gmac_per_second) return std::nullopt;
  return std::max(*result.gb_per_second / ceilings.gb_per_second,
                  *result.gmac_per_second / ceilings.gmac_per_second);
}

Json JsonOf(const BenchResult& result, const Ceilings& ceilings) {
  Json json = {{"name", result.name}};
  Put(&json, "tokens", result.tokens);
  Put(&json, "depth", result.depth);
  Put(&json, "conversations", result.conversations);
  Put(&json, "window", result.window);
  Put(&json, "tokens_per_second", result.tokens_per_second);
  Put(&json, "milliseconds", result.milliseconds);
  Put(&json, "median_step_ms", result.median_step_ms);
  Put(&json, "p999_step_ms", result.p999_step_ms);
  Put(&json, "gb_per_second", result.gb_per_second);
  Put(&json, "gmac_per_second", result.gmac_per_second);
  Put(&json, "share_of_ceiling", ShareOfCeiling(result, ceilings));
  Put(&json, "pss_bytes", result.pss_bytes);
  return json;
}

template <typename T>
std::string Cell(const std::optional<T>& value, int decimals) {
  return value ? fmt::format("{:.{}f}", static_cast<double>(*value), decimals) : "-";
}

std::vector<std::string> RowOf(const BenchResult& result, const Ceilings& ceilings) {
  std::string what = result.name;
  if (result.tokens) what += fmt::format(" {}", *result.tokens);
  if (result.conversations) what += fmt::format(" x{}", *result.conversations);
  if (result.depth) what += fmt::format(" at {}", *result.depth);
  if (result.window) what += fmt::format(" in {}", *result.window);
  std::optional<double> percent = ShareOfCeiling(result, ceilings);
  if (percent) *percent *= 100;
  return {what,
          Cell(result.tokens_per_second, 1),
          Cell(result.milliseconds, 1),
          Cell(result.median_step_ms, 2),
          Cell(result.p999_step_ms, 2),
          Cell(result.gb_per_second, 1),
          Cell(result.gmac_per_second, 1),
          Cell(percent, 0),
          result.pss_bytes ? HumanBytes(*result.pss_bytes) : "-"};
}

Result<BenchOptions> OptionsFrom(const CommandContext& context, const EngineOptions& engine) {
  BenchOptions options;
  options.cases = WordsFlag(context, "cases");
  MOORING_ASSIGN_OR_RETURN(options.depths,
                           IntegersFlag(context, "lengths", options.depths, 1, kMost));
  MOORING_ASSIGN_OR_RETURN(options.batch, IntegerFlag(context, "batch", options.batch, 1, 1024));
  MOORING_ASSIGN_OR_RETURN(options.age, IntegerFlag(context, "age", options.age, 0, kMost));
  MOORING_ASSIGN_OR_RETURN(const int64_t repeat,
                           IntegerFlag(context, "repeat", options.repeat, 1, 1000));
  options.repeat = static_cast<int>(repeat);
  options.key_value = engine.key_value;
  options.policy = engine.policy;
  options.anchors = engine.window.anchors;
  if (context.settings.window_size) {
    options.endless_window = engine.window.capacity;
    options.memory_window = engine.window.capacity;
  }
  options.interrupted = context.interrupted;
  return options;
}

void PrintTable(const CommandContext& context, const std::vector<BenchResult>& results,
                const Ceilings& ceilings) {
  Table table({"case", "tokens/s", "ms", "median step ms", "p99.9 step ms", "GB/s", "GMAC/s",
               "% of ceiling", "memory"});
  for (const BenchResult& result : results) table.Add(RowOf(result, ceilings));
  table.Print(context.out, context.global.color);
  if (ceilings.gb_per_second > 0) {
    Print(context.out, "ceilings: {:.1f} GB/s, {:.1f} GMAC/s\n", ceilings.gb_per_second,
          ceilings.gmac_per_second);
  }
}

void PrintReport(const CommandContext& context, const Runtime& runtime, const BenchOptions& options,
                 const std::vector<BenchResult>& results, const Ceilings& ceilings) {
  Json cases = Json::array();
  for (const BenchResult& result : results) cases.push_back(JsonOf(result, ceilings));
  Json report = {{"machine", {{"cores", std::thread::hardware_concurrency()}}},
                 {"isa", std::string(runtime.backend->kernels().name)},
                 {"model", runtime.model_name},
                 {"threads", runtime.backend->thread_count()},
                 {"precision", std::string(NameOf(runtime.model->precision()))},
                 {"key_value", std::string(KeyValueName(options.key_value))},
                 {"age", options.age},
                 {"cases", std::move(cases)}};
  if (ceilings.gb_per_second > 0) {
    report["ceilings"] = {{"gb_per_second", ceilings.gb_per_second},
                          {"gmac_per_second", ceilings.gmac_per_second}};
  }
  PrintJson(context.out, report);
}

Status RunBenchCommand(CommandContext& context) {
  MOORING_ASSIGN_OR_RETURN(Runtime runtime, LoadRuntime(context, {.chat_template = false}));
  if (!context.global.quiet) PrintText(context.err, runtime.Description());
  MOORING_ASSIGN_OR_RETURN(const BenchOptions options,
                           OptionsFrom(context, runtime.engine->options()));
  runtime.engine.reset();  // each case makes its own
  std::vector<BenchResult> results;
  MOORING_RETURN_IF_ERROR(RunBench(*runtime.model, *runtime.tokenizer, options,
                                   [&](const BenchResult& result) { results.push_back(result); }));
  // Last of all, because it takes memory; not at all when nothing is held against it.
  Ceilings ceilings;
  if (std::ranges::any_of(results,
                          [](const auto& each) { return each.gb_per_second.has_value(); })) {
    const Projection& gate = runtime.model->weights().layers.front().gate;  // the most work
    ceilings = MeasureCeilings(*runtime.backend, gate.weight.dtype, gate.matmul);
  }
  if (context.global.json) {
    PrintReport(context, runtime, options, results, ceilings);
  } else {
    PrintTable(context, results, ceilings);
  }
  return {};
}

}  // namespace

Command BenchCommand() {
  return {.name = "bench",
          .arguments = "",
          .summary = "tokens per second, step times and memory",
          .examples =
              "mooring bench\n"
              "mooring bench --cases decode --lengths 64,1024,4096 --repeat 5\n"
              "mooring --json bench --cases endless --window 2048",
          .min_arguments = 0,
          .max_arguments = 0,
          .loads_model = true,
          .flags = kFlags,
          .run = RunBenchCommand};
}

}  // namespace mooring
