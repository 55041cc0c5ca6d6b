// A step allocates nothing once the engine is warm: what a step needs is taken at start. Counts
// every operator new of the process while steps run, whichever thread asks.

#include <gtest/gtest.h>

#include <atomic>
#include <cstdlib>
#include <new>

#include "tests/support.h"

namespace {

std::atomic<bool> counting = false;
std::atomic<int64_t> allocations = 0;

void* Allocate(size_t bytes, size_t alignment) {
  if (counting.load(std::memory_order_relaxed)) allocations.fetch_add(1);
  // A multiple of the alignment, as the standard asks of aligned_alloc.
  void* memory = std::aligned_alloc(alignment, (bytes + alignment - 1) / alignment * alignment);
  if (memory == nullptr) throw std::bad_alloc();
  return memory;
}

constexpr size_t kUsual = alignof(std::max_align_t);

}  // namespace

void* operator new(size_t bytes) { return Allocate(bytes, kUsual); }
void* operator new[](size_t bytes) { return Allocate(bytes, kUsual); }
void* operator new(size_t bytes, std::align_val_t alignment) {
  return Allocate(bytes, static_cast<size_t>(alignment));
}
void* operator new[](size_t bytes, std::align_val_t alignment) {
  return Allocate(bytes, static_cast<size_t>(alignment));
}
void operator delete(void* memory) noexcept { std::free(memory); }
void operator delete[](void* memory) noexcept { std::free(memory); }
void operator delete(void* memory, size_t) noexcept { std::free(memory); }
void operator delete[](void* memory, size_t) noexcept { std::free(memory); }
void operator delete(void* memory, std::align_val_t) noexcept { std::free(memory); }
void operator delete[](void* memory, std::align_val_t) noexcept { std::free(memory); }
void operator delete(void* memory, size_t, std::align_val_t) noexcept { std::free(memory); }
void operator delete[](void* memory, size_t, std::align_val_t) noexcept { std::free(memory); }

namespace mooring::test {
namespace {

// Looks at what it is given, and keeps nothing.
class CountingSink : public Sink {
 public:
  void OnText(std::string_view text) override { bytes_ += text.size(); }
  void OnToken(const SampledToken& /*token*/) override { ++tokens_; }
  int64_t tokens() const { return tokens_; }

 private:
  size_t bytes_ = 0;
  int64_t tokens_ = 0;
};

class AllocationTest : public testing::TestWithParam<Precision> {
 protected:
  static std::vector<TokenId> Prompt(int64_t length, int64_t stream, int64_t vocab) {
    std::vector<TokenId> tokens(static_cast<size_t>(length));
    for (size_t i = 0; i < tokens.size(); ++i) {
      tokens[i] = static_cast<TokenId>((static_cast<int64_t>(i) * 7 + stream * 13) % vocab);
    }
    return tokens;
  }
};

TEST_P(AllocationTest, NoneInAStep) {
  const LoadedModel loaded =
      Load(Golden("tiny/mixed-d64.gguf"), {.threads = 2, .precision = GetParam()});
  const auto engine = MakeEngine(loaded, {.policy = "sinks",
                                          .window = {.capacity = 100, .anchors = 4},
                                          .key_value = DType::kQ8_0,
                                          .conversations = 4,
                                          .step_rows = 32,
                                          .logit_rows = 8});
  std::vector<CountingSink> sinks(4);
  for (int64_t i = 0; i < 4; ++i) {
    TurnRequest request;
    // Two answer while two still read; every way to draw a token is taken.
    request.tokens = Prompt(i % 2 == 0 ? 40 : 7000, i, loaded.model->arch().vocab_size);
    request.max_tokens = 100000;
    request.sampler.temperature = i == 0 ? 0.0F : 0.8F;
    request.sampler.repeat_penalty = i == 2 ? 1.1F : 1.0F;
    request.sampler.dry_multiplier = i == 2 ? 0.8F : 0.0F;
    request.stop = {"a stop string that never comes"};
    ASSERT_TRUE(
        engine->Submit(*engine->Open(), std::move(request), &sinks[static_cast<size_t>(i)]).ok());
  }
  for (int i = 0; i < 60; ++i) ASSERT_TRUE(engine->Step());  // windows are full, pages come and go
  const int64_t before = sinks[0].tokens() + sinks[2].tokens();
  allocations = 0;
  counting = true;
  for (int i = 0; i < 200; ++i) engine->Step();
  counting = false;
  EXPECT_EQ(allocations.load(), 0);
  EXPECT_EQ(sinks[0].tokens() + sinks[2].tokens(), before + 400);
  EXPECT_EQ(sinks[1].tokens(), 0) << "the long prompts are still being read";
  // The counter counts.
  counting = true;
  delete new int(1);
  counting = false;
  EXPECT_GE(allocations.load(), 1);
}

INSTANTIATE_TEST_SUITE_P(All, AllocationTest,
                         testing::Values(Precision::kAuto, Precision::kF32, Precision::kInt8),
                         [](const auto& precision) {
                           return std::string(NameOf(precision.param));
                         });

}  // namespace
}  // namespace mooring::test
