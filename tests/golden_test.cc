// The default model against the independent float implementation whose results are in tests/golden
// (its README says how each file was made). The whole files run on the best instruction set,
// shorter heads of them on the others; MOORING_TEST_FULL_MATRIX=1 runs everything everywhere.

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <cstdlib>
#include <fstream>
#include <iterator>

#include "kernels/select.h"
#include "tests/support.h"
#include "text/chat_template.h"

namespace mooring::test {
namespace {

// Tolerances from tests/golden/README.md.
constexpr double kLossTolerance = 2e-3;
constexpr double kMeanTolerance = 1e-4;
constexpr double kLogitTolerance = 5e-3;
constexpr double kRoundedMeanTolerance = 0.005;  // fp16 and auto
constexpr double kInt8MeanTolerance = 0.01;      // int8 forced
constexpr double kGreedyMargin = 0.02;

struct Setting {
  std::string isa;
  Precision precision;
  DType key_value;
};

std::string NameOfSetting(const Setting& setting) {
  return setting.isa + "_" + std::string(NameOf(setting.precision)) + "_" +
         std::string(InfoOf(setting.key_value).name);
}

[[maybe_unused]] void PrintTo(const Setting& setting, std::ostream* out) {
  *out << NameOfSetting(setting);
}

bool FullMatrix() { return std::getenv("MOORING_TEST_FULL_MATRIX") != nullptr; }

// Every runnable table in floats.
std::vector<Setting> FloatSettings() {
  std::vector<Setting> settings;
  for (const Kernels* kernels : RunnableKernels()) {
    settings.push_back({std::string(kernels->name), Precision::kF32, DType::kF32});
  }
  return settings;
}

// The same, and the best one as users run it.
std::vector<Setting> AllSettings() {
  std::vector<Setting> settings = FloatSettings();
  const std::string best(RunnableKernels()[0]->name);
  settings.push_back({best, Precision::kAuto, DType::kQ8_0});
  if (FullMatrix()) {
    settings.push_back({best, Precision::kAuto, DType::kF16});
    settings.push_back({best, Precision::kF16, DType::kF16});
    settings.push_back({best, Precision::kInt8, DType::kQ8_0});
  }
  return settings;
}

// Where the greedy replies are written: plain code would take a minute for a dozen tokens.
std::vector<Setting> GreedySettings() {
  std::vector<Setting> settings = FloatSettings();
  if (!FullMatrix()) std::erase_if(settings, [](const Setting& each) { return each.isa == "ref"; });
  return settings;
}

// Scalar code and sanitizers are slow: they read the heads of files.
bool HeadsOnly(const Setting& setting) {
  return !FullMatrix() && (kSanitized || setting.isa == "ref");
}

// How many of a file's tokens a table reads here; `scalar`: what plain code reads.
size_t TokenLimit(const Setting& setting, size_t all, size_t scalar) {
  if (HeadsOnly(setting)) {
    const size_t sanitized = setting.isa == "ref" ? 48 : 160;
    return std::min({all, scalar, kSanitized ? sanitized : scalar});
  }
  return FullMatrix() || setting.isa == RunnableKernels()[0]->name ? all
                                                                   : std::min<size_t>(all, 1100);
}

class GoldenTest : public testing::TestWithParam<Setting> {
 protected:
  void SetUp() override {
    const auto path = DefaultModelPath();
    if (!path) {
      GTEST_SKIP() << "the default model is not here: mooring pull smollm2 fetches it";
    }
    loaded_ = Load(*path, {.isa = GetParam().isa, .threads = 2, .precision = GetParam().precision});
    // The first thing every forced run proves: the table that was asked for is the one that runs.
    ASSERT_EQ(loaded_.backend->kernels().name, GetParam().isa);
  }

  bool exact() const { return GetParam().precision == Precision::kF32; }

  std::unique_ptr<Engine> EngineFor(std::string policy, int32_t capacity, int32_t anchors) const {
    return MakeEngine(loaded_, {.policy = std::move(policy),
                                .window = {.capacity = capacity, .anchors = anchors},
                                .key_value = GetParam().key_value,
                                .conversations = 1,
                                .step_rows = 64,
                                .logit_rows = 64});
  }

  void ExpectLosses(std::span<const double> losses, const std::vector<double>& expected) const {
    ASSERT_LE(losses.size(), expected.size());
    double sum = 0;
    double worst = 0;
    for (size_t i = 0; i < losses.size(); ++i) {
      sum += losses[i] - expected[i];
      worst = std::max(worst, std::abs(losses[i] - expected[i]));
    }
    const double mean = sum / static_cast<double>(losses.size());
    RecordProperty("tokens", static_cast<int>(losses.size()));
    RecordProperty("worst_loss_error", std::to_string(worst));
    RecordProperty("mean_loss_error", std::to_string(mean));
    std::printf("%zu losses: mean off by %.2e, worst by %.2e\n", losses.size(), mean, worst);
    if (exact()) {
      EXPECT_LT(worst, kLossTolerance);
      EXPECT_LT(std::abs(mean), kMeanTolerance);
    } else {
      // On a few hundred tokens chance moves the mean more than on the whole file.
      const double few = losses.size() < 1000 ? 4.0 : 1.0;
      const bool int8 = GetParam().precision == Precision::kInt8;
      EXPECT_LT(std::abs(mean), (int8 ? kInt8MeanTolerance : kRoundedMeanTolerance) * few);
    }
  }

  LoadedModel loaded_;
};

// Compares the rows of which the file has the largest logits.
class LogitSink : public Sink {
 public:
  explicit LogitSink(const nlohmann::json& expected) : expected_(expected) {}
  void OnLogits(LogIndex index, std::span<const float> logits) override {
    for (const auto& entry : expected_) {
      if (entry["position"].get<int64_t>() != index.value) continue;
      ++compared_;
      const auto ids = entry["ids"].get<std::vector<size_t>>();
      const auto values = entry["logits"].get<std::vector<double>>();
      for (size_t i = 0; i < ids.size(); ++i) {
        EXPECT_NEAR(logits[ids[i]], values[i], kLogitTolerance) << "position " << index.value;
      }
    }
  }
  int compared() const { return compared_; }

 private:
  const nlohmann::json& expected_;
  int compared_ = 0;
};

TEST_P(GoldenTest, DenseLossesAndLogits) {
  const auto golden = ReadJson(Golden("dense.json"));
  auto tokens = golden["tokens"].get<std::vector<TokenId>>();
  tokens.resize(std::min(tokens.size(), TokenLimit(GetParam(), tokens.size(), 256)));
  const auto engine = EngineFor("dense", 2052, 4);
  LogitSink logits(golden["top_logits"]);
  // Only floats can be held to single logits.
  ExpectLosses(Losses(*engine, tokens, exact() ? &logits : nullptr),
               golden["nll"].get<std::vector<double>>());
  EXPECT_EQ(logits.compared() > 0, exact());
}

TEST_P(GoldenTest, SinksLosses) {
  const auto golden = ReadJson(Golden("sinks.json"));
  std::ifstream file(Golden("text.txt"));
  const std::string text((std::istreambuf_iterator<char>(file)), {});
  const std::vector<TokenId> all = loaded_.tokenizer->Encode(text, Trust::kUntrusted);
  ASSERT_EQ(all.size(), golden["token_count"].get<size_t>());
  for (const auto& entry : golden["cases"]) {
    const auto anchors = entry["anchors"].get<int32_t>();
    const auto capacity = entry["capacity"].get<int32_t>();
    SCOPED_TRACE(testing::Message() << anchors << " anchors, window " << capacity);
    // In the head of a file only small windows fill.
    if (HeadsOnly(GetParam()) && capacity > 100) continue;
    const size_t length = TokenLimit(GetParam(), entry["tokens"].get<size_t>(), 320);
    const auto engine = EngineFor("sinks", capacity, anchors);
    ExpectLosses(Losses(*engine, std::span(all).first(std::min(length + 1, all.size()))),
                 entry["nll"].get<std::vector<double>>());
  }
}

// Greedy text, which only floats can be held to.
class GreedyGoldenTest : public GoldenTest {};

TEST_P(GreedyGoldenTest, GreedyReplies) {
  for (const auto& entry : ReadJson(Golden("chat.json"))) {
    const auto expected = entry["greedy_ids"].get<std::vector<TokenId>>();
    const auto margins = entry["margins"].get<std::vector<double>>();
    size_t sure = 0;  // tokens before the first step that rounding could turn
    while (sure < margins.size() && margins[sure] >= kGreedyMargin) ++sure;
    sure = TokenLimit(GetParam(), sure, std::min<size_t>(sure, 12));
    const auto engine = EngineFor("sinks", 1024, 4);
    RecordingSink sink;
    TurnRequest request;
    request.tokens = entry["prompt_ids"].get<std::vector<TokenId>>();
    request.max_tokens = static_cast<int64_t>(sure);
    request.sampler.temperature = 0;
    request.end_tokens = {2};
    if (sure == 0) continue;
    RunTurn(*engine, *engine->Open(), std::move(request), &sink);
    ASSERT_LE(sink.tokens().size(), expected.size());
    EXPECT_TRUE(std::ranges::equal(sink.tokens(),
                                   std::span(expected).first(std::min(sure, expected.size()))))
        << entry["rendered"];
  }
}

INSTANTIATE_TEST_SUITE_P(All, GoldenTest, testing::ValuesIn(AllSettings()),
                         [](const auto& setting) { return NameOfSetting(setting.param); });
INSTANTIATE_TEST_SUITE_P(Floats, GreedyGoldenTest, testing::ValuesIn(GreedySettings()),
                         [](const auto& setting) { return NameOfSetting(setting.param); });

}  // namespace
}  // namespace mooring::test
