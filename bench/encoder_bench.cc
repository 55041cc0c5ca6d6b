// How long a sentence encoder takes for texts of some lengths: MOORING_TEST_ENCODER names its
// folder. One iteration is one text; "cold" reads 64 MiB of something else before each, as a model
// does that speaks between two messages.
#include <benchmark/benchmark.h>

#include <cstdlib>
#include <numeric>
#include <string>
#include <vector>

#include "engine/text_encoder.h"

namespace mooring {
namespace {

void Encode(benchmark::State& state, bool cold) {
  const char* folder = std::getenv("MOORING_TEST_ENCODER");
  auto backend = Backend::Create("", static_cast<int>(state.range(0)));
  if (folder == nullptr || !backend.ok()) {
    state.SkipWithError("MOORING_TEST_ENCODER names no folder");
    return;
  }
  auto encoder = TextEncoder::Open(folder, backend->get());
  if (!encoder.ok()) {
    state.SkipWithError(encoder.error().Message().c_str());
    return;
  }
  std::string text;
  for (int64_t i = 2; i < state.range(1); ++i) text += "gate ";
  const std::vector<int> other(cold ? 16 << 20 : 0, 1);
  for (auto _ : state) {
    if (cold) {
      state.PauseTiming();
      benchmark::DoNotOptimize(std::accumulate(other.begin(), other.end(), 0));
      state.ResumeTiming();
    }
    benchmark::DoNotOptimize((*encoder)->Encode(text).data());
  }
}

void Open(benchmark::State& state) {
  const char* folder = std::getenv("MOORING_TEST_ENCODER");
  auto backend = Backend::Create("", 1);
  for (auto _ : state) {
    auto encoder = TextEncoder::Open(folder == nullptr ? "" : folder, backend->get());
    benchmark::DoNotOptimize(encoder.ok());
  }
}

BENCHMARK_CAPTURE(Encode, warm, false)
    ->ArgNames({"threads", "tokens"})
    ->ArgsProduct({{1, 2}, {8, 20, 64, 256}})
    ->Unit(benchmark::kMillisecond)
    ->UseRealTime();
BENCHMARK_CAPTURE(Encode, cold, true)
    ->ArgNames({"threads", "tokens"})
    ->ArgsProduct({{1, 2}, {20}})
    ->Unit(benchmark::kMillisecond)
    ->UseRealTime();
BENCHMARK(Open)->Unit(benchmark::kMillisecond);

}  // namespace
}  // namespace mooring

BENCHMARK_MAIN();
