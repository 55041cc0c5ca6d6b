// Small random-weight models of odd sizes against Hugging Face transformers, and against an
// independent implementation of the sinks rule (tests/golden/tiny/README.md).

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <fstream>

#include "kernels/select.h"
#include "tests/support.h"

namespace mooring::test {
namespace {

// From tests/golden/tiny/README.md, for float32 throughout.
constexpr double kLossTolerance = 1e-3;
constexpr double kMeanTolerance = 1e-4;
constexpr double kLogitTolerance = 2e-3;

struct TinyCase {
  std::string isa;
  std::string name;
  std::string file;
};

std::string NameOfCase(const TinyCase& tiny) {
  std::string name = tiny.isa + "_" + tiny.file.substr(0, tiny.file.size() - 5);
  std::ranges::replace(name, '-', '_');
  std::ranges::replace(name, '.', '_');
  return name;
}

[[maybe_unused]] void PrintTo(const TinyCase& tiny, std::ostream* out) { *out << NameOfCase(tiny); }

std::vector<TinyCase> TinyCases() {
  std::vector<TinyCase> cases;
  for (const Kernels* kernels : RunnableKernels()) {
    const std::string isa(kernels->name);
    for (const char* name : {"f32-d32", "f16-d64", "bf16-d80", "q8_0-d32", "q4_0-d80", "q4_1-d128",
                             "mixed-d64", "llama3-d64"}) {
      cases.push_back({isa, name, std::string(name) + ".gguf"});
    }
    cases.push_back({isa, "llama3-d64", "llama3-d64.v2.gguf"});
  }
  return cases;
}

class TinyModelTest : public testing::TestWithParam<TinyCase> {
 protected:
  LoadedModel LoadIt() const {
    LoadedModel loaded =
        Load(Golden("tiny/" + GetParam().file), {.isa = GetParam().isa, .threads = 1});
    EXPECT_EQ(loaded.backend->kernels().name, GetParam().isa);
    return loaded;
  }
};

void ExpectLosses(const std::vector<double>& found, const std::vector<double>& expected) {
  ASSERT_EQ(found.size(), expected.size());
  double sum = 0;
  for (size_t i = 0; i < found.size(); ++i) {
    EXPECT_NEAR(found[i], expected[i], kLossTolerance) << "token " << i + 1;
    sum += found[i] - expected[i];
  }
  EXPECT_LT(std::abs(sum / static_cast<double>(found.size())), kMeanTolerance);
}

TEST_P(TinyModelTest, LossesAndLogits) {
  const auto golden = ReadJson(Golden("tiny/" + GetParam().name + ".json"));
  const auto tokens = golden["tokens"].get<std::vector<TokenId>>();
  const LoadedModel loaded = LoadIt();
  const auto engine = MakeEngine(loaded, {.policy = "dense",
                                          .window = {.capacity = 256, .anchors = 4},
                                          .key_value = DType::kF32,
                                          .force_window = true,
                                          .conversations = 1,
                                          .step_rows = 33,
                                          .logit_rows = 33});
  ExpectLosses(Losses(*engine, tokens), golden["nll"].get<std::vector<double>>());

  class LogitSink : public Sink {
   public:
    explicit LogitSink(const nlohmann::json& expected) : expected_(expected) {}
    void OnLogits(LogIndex index, std::span<const float> logits) override {
      for (const auto& entry : expected_) {
        if (entry["position"].get<int64_t>() != index.value) continue;
        const auto values = entry["values"].get<std::vector<double>>();
        ASSERT_EQ(logits.size(), values.size());
        for (size_t i = 0; i < values.size(); ++i) {
          EXPECT_NEAR(logits[i], values[i], kLogitTolerance) << index.value << ", id " << i;
        }
        ++compared_;
      }
    }
    size_t compared_ = 0;

   private:
    const nlohmann::json& expected_;
  };
  LogitSink sink(golden["logits"]);
  TurnRequest request;
  request.tokens = tokens;
  request.every_logit = true;
  RunTurn(*engine, *engine->Open(), std::move(request), &sink);
  EXPECT_EQ(sink.compared_, golden["logits"].size());
}

TEST_P(TinyModelTest, Sinks) {
  const auto path = Golden("tiny/" + GetParam().name + ".sinks.json");
  if (!std::filesystem::exists(path)) return;  // not every model has that oracle
  const auto golden = ReadJson(path);
  const auto tokens = golden["tokens"].get<std::vector<TokenId>>();
  const LoadedModel loaded = LoadIt();
  for (const auto& entry : golden["cases"]) {
    for (const int chunk : {1, 37}) {
      const auto engine =
          MakeEngine(loaded, {.policy = "sinks",
                              .window = {.capacity = entry["capacity"].get<int32_t>(),
                                         .anchors = entry["anchors"].get<int32_t>()},
                              .key_value = DType::kF32,
                              .conversations = 1,
                              .step_rows = chunk,
                              .logit_rows = chunk});
      ExpectLosses(Losses(*engine, tokens), entry["nll"].get<std::vector<double>>());
    }
  }
}

INSTANTIATE_TEST_SUITE_P(All, TinyModelTest, testing::ValuesIn(TinyCases()),
                         [](const auto& tiny) { return NameOfCase(tiny.param); });

}  // namespace
}  // namespace mooring::test
