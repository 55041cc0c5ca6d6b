#include "apps/kernel_check.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <cstring>
#include <memory>
#include <new>
#include <span>

#include "base/random.h"
#include "tensor/dtype.h"
#include "tensor/kv_view.h"
#include "tensor/position.h"

namespace mooring {
namespace {

constexpr uint64_t kSeed = 20240707;
// Odd counts, so that the ends of vectors are tried too.
constexpr int64_t kInDim = 288;
constexpr int64_t kOutputs = 37;
constexpr int64_t kRowCount = 5;
constexpr int kHeadDim = 64;
constexpr int kGroup = 3;
constexpr int kPages = 5;
// Both sides add up the same products in another order: some ten roundings of 6e-8 each, on sums
// that are a few times larger on the way than in the end.
constexpr double kMatmulLimit = 1e-5;
constexpr double kAttentionLimit = 1e-3;  // exp is approximated, and pages are in half precision

class Draws {
 public:
  explicit Draws(uint64_t stream) : stream_(stream) {}
  // Uniform in [-1, 1).
  float Next() { return static_cast<float>(RandomUniform(kSeed, stream_, counter_++) * 2.0 - 1.0); }
  std::vector<float> Many(size_t count) {
    std::vector<float> values(count);
    for (float& value : values) value = Next();
    return values;
  }

 private:
  uint64_t stream_;
  uint64_t counter_ = 0;
};

template <typename Block>
void FillQuantised(std::span<std::byte> bytes, Draws* draws) {
  for (size_t at = 0; at + sizeof(Block) <= bytes.size(); at += sizeof(Block)) {
    Block block = {};
    for (auto& quant : block.quant) {
      quant = static_cast<std::remove_reference_t<decltype(quant)>>(
          static_cast<int>(draws->Next() * 127.0F) +
          (sizeof(Block) == sizeof(BlockQ8_0) ? 0 : 128));
    }
    block.scale = HalfFromFloat(0.01F + 0.005F * draws->Next());
    if constexpr (requires { block.minimum; }) block.minimum = HalfFromFloat(0.1F * draws->Next());
    std::memcpy(bytes.data() + at, &block, sizeof(Block));
  }
}

std::vector<std::byte> RandomWeights(DType dtype, Draws* draws) {
  const DTypeInfo& info = InfoOf(dtype);
  std::vector<std::byte> bytes(
      static_cast<size_t>(kOutputs * kInDim / info.block_items * info.block_bytes));
  switch (dtype) {
    case DType::kQ8_0:
      FillQuantised<BlockQ8_0>(bytes, draws);
      return bytes;
    case DType::kQ4_0:
      FillQuantised<BlockQ4_0>(bytes, draws);
      return bytes;
    case DType::kQ4_1:
      FillQuantised<BlockQ4_1>(bytes, draws);
      return bytes;
    case DType::kF32:
    case DType::kF16:
    case DType::kBF16:
      break;
  }
  const auto width = static_cast<size_t>(info.block_bytes);
  for (size_t at = 0; at < bytes.size(); at += width) {
    const float value = draws->Next();
    const uint16_t half = dtype == DType::kF16 ? HalfFromFloat(value) : BFloatFromFloat(value);
    std::memcpy(bytes.data() + at, width == 4 ? static_cast<const void*>(&value) : &half, width);
  }
  return bytes;
}

// The largest difference relative to the largest value; NaN when anything is not finite.
double LargestError(std::span<const float> got, std::span<const float> want) {
  double largest = 0.0;
  double difference = 0.0;
  for (size_t i = 0; i < got.size(); ++i) {
    if (!std::isfinite(got[i]) || !std::isfinite(want[i])) return std::nan("");
    largest = std::max(largest, std::abs(static_cast<double>(want[i])));
    difference = std::max(difference, std::abs(static_cast<double>(got[i]) - want[i]));
  }
  return difference / largest;
}

void CompareMatmul(DType dtype, const Kernels& table, const Kernels& oracle,
                   std::vector<KernelCheck>* results) {
  Draws draws(static_cast<uint64_t>(dtype) + 1);
  const std::vector<std::byte> weights = RandomWeights(dtype, &draws);
  const std::vector<float> input = draws.Many(static_cast<size_t>(kRowCount * kInDim));
  std::vector<Int8Block> int8(static_cast<size_t>(kRowCount * kInDim / kBlockItems));
  std::vector<Int16Block> int16(int8.size());
  oracle.QuantizeInt8(input.data(), kRowCount * kInDim, int8.data());
  oracle.QuantizeInt16(input.data(), kRowCount * kInDim, int16.data());
  std::vector<float> got(static_cast<size_t>(kRowCount * kOutputs));
  std::vector<float> want = got;
  MatmulTask task = {.weights = weights.data(),
                     .weight_row_bytes = static_cast<int64_t>(weights.size()) / kOutputs,
                     .in_dim = kInDim,
                     .row_count = kRowCount,
                     .input = input.data(),
                     .int8 = int8.data(),
                     .int16 = int16.data(),
                     .out_stride = kOutputs};
  const auto run = [&](MatmulFunction function, std::vector<float>* out) {
    task.out = out->data();
    function(task, 0, kOutputs);
  };
  const auto at = static_cast<size_t>(dtype);
  const auto compare = [&](MatmulFunction fast, MatmulFunction plain, std::string_view what) {
    if (fast == nullptr || plain == nullptr) return;
    run(fast, &got);
    run(plain, &want);
    results->push_back({fmt::format("{} matmul {}, {}", table.name, InfoOf(dtype).name, what),
                        LargestError(got, want), kMatmulLimit});
  };
  compare(table.formats[at].matmul_float, oracle.formats[at].matmul_float, "float");
  compare(table.formats[at].matmul_int8, oracle.formats[at].matmul_int8, "8 bits");
  compare(table.formats[at].matmul_int16, oracle.formats[at].matmul_int16, "16 bits");
}

// Attention of one row over kPages pages, appended and attended to by `table` alone.
std::vector<float> Attend(const Kernels& table, const RotaryTable& rotary) {
  const PageLayout layout = {.dtype = DType::kF16, .head_dim = kHeadDim};
  // Whole lines of 64 bytes, as the pool of an engine hands out.
  const auto aligned = [](size_t bytes) {
    return std::unique_ptr<std::byte[], void (*)(std::byte*)>(
        new (std::align_val_t(64)) std::byte[bytes](),
        [](std::byte* p) { operator delete[](p, std::align_val_t(64)); });
  };
  const auto memory = aligned(layout.page_bytes() * kPages);
  const auto scratch =
      aligned(static_cast<size_t>(AttendScratchFloats(kHeadDim, kGroup)) * sizeof(float));
  Draws draws(100);
  std::vector<PageRef> pages;
  for (int page = 0; page < kPages; ++page) {
    std::byte* data = memory.get() + layout.page_bytes() * static_cast<size_t>(page);
    for (int slot = 0; slot < kPageSlots; ++slot) {
      const std::vector<float> key = draws.Many(kHeadDim);
      const std::vector<float> value = draws.Many(kHeadDim);
      table.Append(layout, &rotary, slot, key.data(), value.data(), data);
    }
    pages.push_back({.data = data,
                     .base = {page * kPageSlots},
                     .ordinal = static_cast<uint32_t>(page),
                     .ages = page > 0});
  }
  const RowPlace place = {.query = {kPages * kPageSlots - 3}, .first_visible = {kPageSlots + 5}};
  const std::vector<float> queries = draws.Many(static_cast<size_t>(kGroup) * kHeadDim);
  const AttendTask task = {.layout = layout,
                           .pages = pages.data(),
                           .page_count = kPages,
                           .rotary = &rotary,
                           .places = &place,
                           .row_count = 1,
                           .group = kGroup,
                           .queries = queries.data(),
                           .query_stride = static_cast<int64_t>(kGroup) * kHeadDim,
                           .scale = 1.0F / 8.0F};
  const auto state_floats = static_cast<size_t>(AttentionStateFloats(kHeadDim));
  std::vector<float> states(state_floats * kGroup);
  table.AttendPages(task, 0, kPages, states.data(), reinterpret_cast<float*>(scratch.get()));
  std::vector<float> out(static_cast<size_t>(kGroup) * kHeadDim);
  for (size_t g = 0; g < kGroup; ++g) {
    table.FinishAttention(states.data() + g * state_floats, kHeadDim, out.data() + g * kHeadDim);
  }
  return out;
}

}  // namespace

std::vector<KernelCheck> CompareKernels(const Kernels& table, const Kernels& oracle) {
  std::vector<KernelCheck> results;
  for (int dtype = 0; dtype < kDTypeCount; ++dtype) {
    CompareMatmul(static_cast<DType>(dtype), table, oracle, &results);
  }
  const RotaryTable rotary({.rotary_dim = kHeadDim, .pair_divisors = {}}, kPages * kPageSlots);
  const std::vector<float> got = Attend(table, rotary);
  const std::vector<float> want = Attend(oracle, rotary);
  results.push_back(
      {fmt::format("{} attention", table.name), LargestError(got, want), kAttentionLimit});
  return results;
}

}  // namespace mooring
