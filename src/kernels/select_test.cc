#include "kernels/select.h"

#include <gmock/gmock.h>

#include <cstdlib>
#include <optional>

#include "kernels/backend.h"
#include "kernels/kernels_testing.h"

namespace mooring {
namespace {

using testing::HasSubstr;

// Sets MOORING_ISA (or removes it) for the life of a test.
class ForcedIsa {
 public:
  explicit ForcedIsa(const char* value) {
    if (const char* old = std::getenv("MOORING_ISA")) old_ = old;
    Set(value);
  }
  ~ForcedIsa() { Set(old_.has_value() ? old_->c_str() : nullptr); }
  ForcedIsa(const ForcedIsa&) = delete;
  ForcedIsa& operator=(const ForcedIsa&) = delete;

 private:
  static void Set(const char* value) {
    if (value != nullptr) {
      setenv("MOORING_ISA", value, 1);
    } else {
      unsetenv("MOORING_ISA");
    }
  }
  std::optional<std::string> old_;
};

class SelectKernelsTest : public KernelsTest {};

TEST_P(SelectKernelsTest, TheForcedTableIsTheRunningOne) {
  const Result<const Kernels*> chosen = SelectKernels(kernels().name);
  ASSERT_TRUE(chosen.ok());
  EXPECT_EQ(*chosen, &kernels());
  EXPECT_EQ((*chosen)->name, GetParam()->name);
  const ForcedIsa forced(std::string(kernels().name).c_str());
  EXPECT_EQ(*SelectKernels(""), &kernels());
  EXPECT_EQ(*SelectKernels("auto"), &kernels());
  EXPECT_EQ(&(*Backend::Create("", 1))->kernels(), &kernels());
}

// A fast table that quietly holds a function of the reference, or of its neighbour, would pass
// every comparison.
TEST_P(SelectKernelsTest, SharesNoFunctionWithAnotherTable) {
  for (const Kernels* other : RunnableKernels()) {
    if (other == &kernels()) continue;
    EXPECT_NE(kernels().name, other->name);
    EXPECT_NE(kernels().RmsNorm, other->RmsNorm);
    EXPECT_NE(kernels().Add, other->Add);
    EXPECT_NE(kernels().SwiGlu, other->SwiGlu);
    EXPECT_NE(kernels().LayerNorm, other->LayerNorm);
    EXPECT_NE(kernels().Gelu, other->Gelu);
    EXPECT_NE(kernels().Softmax, other->Softmax);
    EXPECT_NE(kernels().QuantizeInt8, other->QuantizeInt8);
    EXPECT_NE(kernels().QuantizeInt16, other->QuantizeInt16);
    EXPECT_NE(kernels().RoundRow, other->RoundRow);
    EXPECT_NE(kernels().ArgMax, other->ArgMax);
    EXPECT_NE(kernels().LogSumExp, other->LogSumExp);
    EXPECT_NE(kernels().Append, other->Append);
    EXPECT_NE(kernels().AttendPages, other->AttendPages);
    EXPECT_NE(kernels().MergeAttention, other->MergeAttention);
    EXPECT_NE(kernels().FinishAttention, other->FinishAttention);
    for (size_t i = 0; i < kDTypeCount; ++i) {
      EXPECT_NE(kernels().formats[i].dequantize, other->formats[i].dequantize);
      EXPECT_NE(kernels().formats[i].matmul_float, other->formats[i].matmul_float);
      if (kernels().formats[i].matmul_int8 != nullptr) {
        EXPECT_NE(kernels().formats[i].matmul_int8, other->formats[i].matmul_int8);
        EXPECT_NE(kernels().formats[i].matmul_int16, other->formats[i].matmul_int16);
      }
    }
  }
}

TEST_P(SelectKernelsTest, KnowsEveryFormat) {
  for (int i = 0; i < kDTypeCount; ++i) {
    const FormatKernels& format = kernels().formats[static_cast<size_t>(i)];
    EXPECT_NE(format.dequantize, nullptr);
    EXPECT_NE(format.matmul_float, nullptr);
    const bool is_integer = InfoOf(static_cast<DType>(i)).block_items == kBlockItems;
    EXPECT_EQ(format.matmul_int8 != nullptr, is_integer);
    EXPECT_EQ(format.matmul_int16 != nullptr, is_integer);
  }
}

MOORING_FOR_EVERY_TABLE(SelectKernelsTest);

TEST(SelectTest, AutoIsTheBestAndTheReferenceIsAlwaysThere) {
  const ForcedIsa nothing(nullptr);
  EXPECT_EQ(*SelectKernels(""), RunnableKernels().front());
  EXPECT_EQ(*SelectKernels("auto"), RunnableKernels().front());
  EXPECT_EQ(RunnableKernels().back()->name, "ref");
}

TEST(SelectTest, AnExplicitNameBeatsTheEnvironment) {
  const ForcedIsa wrong("nonsense");
  EXPECT_EQ((*SelectKernels("ref"))->name, "ref");
}

TEST(SelectTest, ANameWithoutATableIsAUsageErrorThatListsTheOthers) {
  for (const char* name : {"amx", "avxvnni", "cuda"}) {
    const Result<const Kernels*> result = SelectKernels(name);
    ASSERT_FALSE(result.ok());
    EXPECT_EQ(result.error().kind, ErrorKind::kUsage);
    EXPECT_THAT(result.error().Message(), HasSubstr("this build has no such kernels"));
    EXPECT_THAT(result.error().Message(), HasSubstr("ref"));
    EXPECT_THAT(result.error().Message(), HasSubstr(name));
  }
  EXPECT_THAT(SelectKernels("mmx").error().Message(), HasSubstr("unknown instruction set"));
  const ForcedIsa wrong("AVX2");
  EXPECT_THAT(SelectKernels("").error().Message(), HasSubstr("MOORING_ISA"));
}

}  // namespace
}  // namespace mooring
