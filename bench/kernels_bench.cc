// How fast the kernels of each table are on one core, with the rates that a ceiling can be compared
// with: MAC/s for arithmetic, bytes/s for the weights or pages that were read.
//
//   kernels_bench --benchmark_filter='avx2/Int8'
#include <benchmark/benchmark.h>
#include <fmt/format.h>

#include <cmath>
#include <cstring>
#include <string>
#include <vector>

#include "base/random.h"
#include "kernels/kernels.h"
#include "kernels/select.h"

namespace mooring {
namespace {

// The matrices of a 135M model: attention, gate and up, down, and the vocabulary.
struct MatmulCase {
  DType dtype;
  int64_t in_dim;
  int64_t out_dim;
};
constexpr MatmulCase kMatmulCases[] = {
    {DType::kQ4_1, 576, 576},  {DType::kQ4_1, 576, 1536}, {DType::kQ4_1, 1536, 576},
    {DType::kQ4_0, 576, 1536}, {DType::kQ8_0, 576, 1536}, {DType::kQ8_0, 576, 49152},
    {DType::kF16, 576, 1536},  {DType::kF32, 576, 1536},  {DType::kBF16, 576, 1536}};

float RandomFloat(uint64_t stream, uint64_t i) {
  return static_cast<float>(RandomUniform(1, stream, i)) - 0.5F;
}

std::vector<std::byte> RandomWeights(const MatmulCase& shape) {
  const DTypeInfo& info = InfoOf(shape.dtype);
  const int64_t blocks = shape.in_dim * shape.out_dim / info.block_items;
  std::vector<std::byte> weights(static_cast<size_t>(blocks * info.block_bytes));
  for (size_t i = 0; i < weights.size(); ++i) weights[i] = std::byte(RandomBits(1, 2, i) & 0x3FU);
  return weights;  // no byte above 0x3F: every scalar and scale is finite
}

void BenchMatmul(benchmark::State& state, const Kernels& kernels, const MatmulCase& shape,
                 Arithmetic arithmetic, int64_t rows) {
  const std::vector<std::byte> weights = RandomWeights(shape);
  const auto input_count = static_cast<size_t>(rows * shape.in_dim);
  std::vector<float> input(input_count);
  for (size_t i = 0; i < input_count; ++i) input[i] = RandomFloat(3, i);
  std::vector<Int8Block> int8(input_count / kBlockItems);
  std::vector<Int16Block> int16(input_count / kBlockItems);
  kernels.QuantizeInt8(input.data(), static_cast<int64_t>(input_count), int8.data());
  kernels.QuantizeInt16(input.data(), static_cast<int64_t>(input_count), int16.data());
  std::vector<float> out(static_cast<size_t>(rows * shape.out_dim));
  MatmulTask task;
  task.weights = weights.data();
  task.weight_row_bytes = static_cast<int64_t>(weights.size()) / shape.out_dim;
  task.in_dim = shape.in_dim;
  task.row_count = rows;
  task.input = input.data();
  task.int8 = int8.data();
  task.int16 = int16.data();
  task.out = out.data();
  task.out_stride = shape.out_dim;
  const FormatKernels& format = kernels.formats[static_cast<size_t>(shape.dtype)];
  MatmulFunction matmul = format.matmul_float;
  if (arithmetic == Arithmetic::kInt8) matmul = format.matmul_int8;
  if (arithmetic == Arithmetic::kInt16) matmul = format.matmul_int16;
  for (auto _ : state) {
    matmul(task, 0, shape.out_dim);
    benchmark::ClobberMemory();
  }
  const auto macs = static_cast<double>(rows * shape.in_dim * shape.out_dim);
  state.counters["MAC/s"] = benchmark::Counter(macs, benchmark::Counter::kIsIterationInvariantRate);
  state.counters["B/s"] = benchmark::Counter(static_cast<double>(weights.size()),
                                             benchmark::Counter::kIsIterationInvariantRate);
}

// One kv head of a 135M model (3 query heads, 64 items) at a depth of `tokens`. Several heads'
// pages are visited in turn, as in a step, so that depth costs what it costs there.
void BenchAttend(benchmark::State& state, const Kernels& kernels, DType dtype, int64_t tokens,
                 int row_count) {
  constexpr int kHeadDim = 64;
  constexpr int kGroup = 3;
  constexpr int kHeads = 8;
  const PageLayout layout{dtype, kHeadDim};
  const RotaryTable rotary({.rotary_dim = kHeadDim, .pair_divisors = {}},
                           static_cast<int32_t>(tokens) + 64);
  const int64_t page_count = tokens / kPageSlots;
  std::vector<std::byte> memory(static_cast<size_t>(page_count * kHeads) * layout.page_bytes());
  std::vector<float> item(kHeadDim);
  for (size_t i = 0; i < kHeadDim; ++i) item[i] = RandomFloat(4, i);
  std::vector<PageRef> pages;
  for (int64_t p = 0; p < page_count * kHeads; ++p) {
    PageRef page;
    page.data = memory.data() + static_cast<size_t>(p) * layout.page_bytes();
    page.base = WindowPos{static_cast<int32_t>(p % page_count) * kPageSlots};
    for (int slot = 0; slot < kPageSlots; ++slot) {
      kernels.Append(layout, &rotary, slot, item.data(), item.data(), page.data);
    }
    pages.push_back(page);
  }
  std::vector<float> queries(static_cast<size_t>(row_count) * kGroup * kHeadDim, 0.25F);
  std::vector<RowPlace> places(static_cast<size_t>(row_count));
  for (RowPlace& place : places) place.query = WindowPos{static_cast<int32_t>(tokens) - 1};
  AttendTask task;
  task.layout = layout;
  task.rotary = &rotary;
  task.places = places.data();
  task.row_count = row_count;
  task.group = kGroup;
  task.queries = queries.data();
  task.query_stride = kGroup * kHeadDim;
  task.scale = 0.125F;
  std::vector<float> states(static_cast<size_t>(row_count * kGroup) *
                            AttentionStateFloats(kHeadDim));
  std::vector<float> scratch(AttendScratchFloats(kHeadDim, kGroup));
  int64_t head = 0;
  for (auto _ : state) {
    task.pages = pages.data() + head * page_count;
    kernels.AttendPages(task, 0, page_count, states.data(), scratch.data());
    head = (head + 1) % kHeads;
    benchmark::ClobberMemory();
  }
  const auto macs = static_cast<double>(tokens * row_count * 2 * kGroup * kHeadDim);
  state.counters["MAC/s"] = benchmark::Counter(macs, benchmark::Counter::kIsIterationInvariantRate);
  state.counters["B/s"] =
      benchmark::Counter(static_cast<double>(static_cast<size_t>(page_count) * layout.page_bytes()),
                         benchmark::Counter::kIsIterationInvariantRate);
  state.counters["s/page/row"] = benchmark::Counter(
      static_cast<double>(page_count * row_count),
      benchmark::Counter::kIsIterationInvariantRate | benchmark::Counter::kInvert);
}

void RegisterTable(const Kernels& kernels) {
  for (const MatmulCase& shape : kMatmulCases) {
    for (const auto& [arithmetic, name_of_it] :
         {std::pair(Arithmetic::kF32, "Float"), std::pair(Arithmetic::kInt8, "Int8"),
          std::pair(Arithmetic::kInt16, "Int16")}) {
      if (arithmetic != Arithmetic::kF32 && InfoOf(shape.dtype).block_items == 1) continue;
      for (const int64_t rows : {1, 4, 64}) {
        const std::string name =
            fmt::format("{}/{}/{}/{}x{}/rows:{}", kernels.name, name_of_it,
                        InfoOf(shape.dtype).name, shape.in_dim, shape.out_dim, rows);
        benchmark::RegisterBenchmark(name.c_str(), [&kernels, shape, arithmetic = arithmetic,
                                                    rows](benchmark::State& state) {
          BenchMatmul(state, kernels, shape, arithmetic, rows);
        });
      }
    }
  }
  for (const DType dtype : kKeyValueTypes) {
    for (const int64_t tokens : {64, 1024, 4096}) {
      for (const int rows : {1, 16}) {
        const std::string name = fmt::format("{}/Attend/{}/depth:{}/rows:{}", kernels.name,
                                             InfoOf(dtype).name, tokens, rows);
        benchmark::RegisterBenchmark(name.c_str(),
                                     [&kernels, dtype, tokens, rows](benchmark::State& state) {
                                       BenchAttend(state, kernels, dtype, tokens, rows);
                                     });
      }
    }
  }
}

void RegisterRows(const Kernels& kernels) {
  const auto add = [&](const char* function, int64_t count, auto body) {
    const std::string name = fmt::format("{}/{}/{}", kernels.name, function, count);
    benchmark::RegisterBenchmark(name.c_str(), [count, body](benchmark::State& state) {
      std::vector<float> x(static_cast<size_t>(count), 0.5F);
      std::vector<float> y(static_cast<size_t>(count), 1.0F);
      std::vector<Int16Block> blocks(static_cast<size_t>(count / kBlockItems));
      for (auto _ : state) {
        body(x.data(), y.data(), blocks.data());
        benchmark::ClobberMemory();
      }
    });
  };
  add("RmsNorm", 576,
      [&](float* x, float* y, Int16Block*) { kernels.RmsNorm(x, y, 1e-5F, 576, y); });
  add("SwiGlu", 1536, [&](float* x, float* y, Int16Block*) { kernels.SwiGlu(x, y, 1536, y); });
  add("QuantizeInt16", 1536,
      [&](float* x, float*, Int16Block* blocks) { kernels.QuantizeInt16(x, 1536, blocks); });
  add("ArgMax", 49152,
      [&](float* x, float*, Int16Block*) { benchmark::DoNotOptimize(kernels.ArgMax(x, 49152)); });
  add("LogSumExp", 49152, [&](float* x, float*, Int16Block*) {
    benchmark::DoNotOptimize(kernels.LogSumExp(x, 49152));
  });
}

}  // namespace
}  // namespace mooring

int main(int argc, char** argv) {
  for (const mooring::Kernels* kernels : mooring::RunnableKernels()) {
    mooring::RegisterTable(*kernels);
    mooring::RegisterRows(*kernels);
  }
  benchmark::Initialize(&argc, argv);
  if (benchmark::ReportUnrecognizedArguments(argc, argv)) return 2;
  benchmark::RunSpecifiedBenchmarks();
}
