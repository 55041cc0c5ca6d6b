#include "bench/engine/ceilings.h"

#include <algorithm>
#include <atomic>
#include <vector>

#include "base/clock.h"

namespace mooring {
namespace {

constexpr int kRounds = 8;

// Runs `round` often and gives `work` divided by the shortest time.
double Best(double work, FunctionRef<void()> round) {
  double shortest = 1e300;
  for (int i = 0; i < kRounds; ++i) {
    const double start = MonotonicSeconds();
    round();
    shortest = std::min(shortest, MonotonicSeconds() - start);
  }
  return work / std::max(shortest, 1e-9);
}

double ReadBytesPerSecond(ThreadPool& pool) {
  constexpr size_t kWords = (size_t{128} << 20U) / sizeof(uint64_t);
  constexpr size_t kPieceWords = kWords / 64;
  const std::vector<uint64_t> memory(kWords, 1);
  std::atomic<uint64_t> seen = 0;  // so that the reading is not optimised away
  return Best(static_cast<double>(kWords * sizeof(uint64_t)), [&] {
    pool.Run(static_cast<int64_t>(kWords / kPieceWords), [&](int64_t item, int /*thread*/) {
      const uint64_t* words = memory.data() + static_cast<size_t>(item) * kPieceWords;
      uint64_t sums[8] = {};  // independent, so that reading is what takes the time
      for (size_t i = 0; i < kPieceWords; i += 8) {
        for (size_t lane = 0; lane < 8; ++lane) sums[lane] ^= words[i + lane];
      }
      uint64_t sum = 0;
      for (const uint64_t lane : sums) sum ^= lane;
      seen.fetch_xor(sum, std::memory_order_relaxed);
    });
  });
}

double MultiplyAddsPerSecond(ThreadPool& pool, DType format, MatmulFunction matmul) {
  // Four rows and eight outputs are whole tiles of every kernel; all operands take some 20 KiB.
  constexpr int64_t kInputs = 512;
  constexpr int64_t kOutputs = 8;
  constexpr int64_t kRows = 4;
  constexpr int64_t kCalls = 1000;
  const DTypeInfo& info = InfoOf(format);
  const int64_t row_bytes = kInputs / info.block_items * info.block_bytes;
  const std::vector<std::byte> weights(static_cast<size_t>(row_bytes * kOutputs));
  const std::vector<float> floats(kRows * kInputs);
  const std::vector<Int8Block> int8(kRows * kInputs / kBlockItems);
  const std::vector<Int16Block> int16(kRows * kInputs / kBlockItems);
  const auto threads = static_cast<size_t>(pool.thread_count());
  std::vector<float> out(threads * kRows * kOutputs);
  const double work = static_cast<double>(threads) * kCalls * kRows * kOutputs * kInputs;
  return Best(work, [&] {
    pool.Run(static_cast<int64_t>(threads), [&](int64_t item, int /*thread*/) {
      const MatmulTask task = {.weights = weights.data(),
                               .weight_row_bytes = row_bytes,
                               .in_dim = kInputs,
                               .row_count = kRows,
                               .input = floats.data(),
                               .int8 = int8.data(),
                               .int16 = int16.data(),
                               .out = out.data() + item * kRows * kOutputs,
                               .out_stride = kOutputs};
      for (int64_t call = 0; call < kCalls; ++call) matmul(task, 0, kOutputs);
    });
  });
}

}  // namespace

Ceilings MeasureCeilings(Backend& backend, DType format, MatmulFunction matmul) {
  return {.gb_per_second = ReadBytesPerSecond(backend.pool()) / 1e9,
          .gmac_per_second = MultiplyAddsPerSecond(backend.pool(), format, matmul) / 1e9};
}

}  // namespace mooring
