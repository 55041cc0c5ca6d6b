// What the kernels' tests share: fresh random inputs, buffers that start anywhere, and the list of
// tables to run.
//
// Inputs differ in every run. MOORING_TEST_SEED repeats a run; each failure prints its seed.
#ifndef MOORING_KERNELS_KERNELS_TESTING_H_
#define MOORING_KERNELS_KERNELS_TESTING_H_

#include <fmt/format.h>
#include <gtest/gtest.h>

#include <cstdlib>
#include <limits>
#include <string>
#include <vector>

#include "base/random.h"
#include "kernels/kernels.h"
#include "kernels/ref/ref.h"
#include "kernels/select.h"

namespace mooring {

inline uint64_t TestSeed() {
  static const uint64_t kSeed = [] {
    const char* fixed = std::getenv("MOORING_TEST_SEED");
    return fixed != nullptr ? std::strtoull(fixed, nullptr, 0) : DrawSeed();
  }();
  return kSeed;
}

class Random {
 public:
  uint64_t Bits() { return RandomBits(TestSeed(), 0, counter_++); }
  // Uniform in [low, high).
  float Uniform(float low, float high) {
    return low + (high - low) * static_cast<float>(RandomUniform(TestSeed(), 1, counter_++));
  }
  int Below(int limit) { return static_cast<int>(Bits() % static_cast<uint64_t>(limit)); }

 private:
  uint64_t counter_ = 0;
};

// `count` items that start `offset` items after an aligned address and end where the memory ends,
// so that a sanitizer sees every access outside.
template <typename T>
class Buffer {
 public:
  explicit Buffer(int64_t count, int64_t offset = 0)
      : offset_(offset), items_(static_cast<size_t>(count + offset)) {}
  T* data() { return items_.data() + offset_; }
  const T* data() const { return items_.data() + offset_; }
  int64_t count() const { return static_cast<int64_t>(items_.size()) - offset_; }
  T& operator[](int64_t i) { return items_[static_cast<size_t>(i + offset_)]; }
  const T& operator[](int64_t i) const { return items_[static_cast<size_t>(i + offset_)]; }
  void Fill(T value) { items_.assign(items_.size(), value); }

 private:
  int64_t offset_;
  std::vector<T> items_;
};

inline Buffer<float> RandomFloats(Random& random, int64_t count, int64_t offset = 0,
                                  float size = 1.0F) {
  Buffer<float> buffer(count, offset);
  for (int64_t i = 0; i < count; ++i) buffer[i] = random.Uniform(-size, size);
  return buffer;
}

inline bool SameBits(float a, float b) {
  return std::bit_cast<uint32_t>(a) == std::bit_cast<uint32_t>(b);
}

// Half a unit in the last place of 1: the rounding of one float operation.
inline constexpr double kFloatRounding = 0x1.0p-24;

// The suite of every table that this machine can run.
class KernelsTest : public testing::TestWithParam<const Kernels*> {
 protected:
  KernelsTest() : trace_(__FILE__, __LINE__, fmt::format("MOORING_TEST_SEED={}", TestSeed())) {}
  const Kernels& kernels() const { return *GetParam(); }
  Random& random() { return random_; }
  // Counts where a vector loop may go wrong: all up to two vectors of 16 and a bit, and some long.
  static std::vector<int64_t> Counts(int64_t from) {
    std::vector<int64_t> counts;
    for (int64_t count = from; count <= 35; ++count) counts.push_back(count);
    for (const int64_t count : {63, 64, 65, 100, 576, 1001}) counts.push_back(count);
    return counts;
  }

 private:
  testing::ScopedTrace trace_;
  Random random_;
};

inline std::string TableName(const testing::TestParamInfo<const Kernels*>& info) {
  return std::string(info.param->name);
}

#define MOORING_FOR_EVERY_TABLE(suite) \
  INSTANTIATE_TEST_SUITE_P(Tables, suite, testing::ValuesIn(RunnableKernels()), TableName)

}  // namespace mooring

#endif  // MOORING_KERNELS_KERNELS_TESTING_H_
