// Sentence encoders against Hugging Face tokenizers and transformers (tests/golden/README.md): a
// small one with random weights, and the one that the memory uses, where it was fetched.

#include <gtest/gtest.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <cstdio>
#include <string>
#include <vector>

#include "base/test_folder.h"
#include "engine/text_encoder.h"
#include "kernels/select.h"
#include "load/model_folder.h"
#include "load/open.h"
#include "tensor/dtype.h"
#include "tests/support.h"

namespace mooring::test {
namespace {

namespace fs = std::filesystem;

// Stored as halves, vectors are turned by less than 1e-7; float sums over 384 and 1,536 items, six
// layers deep, by less than 1e-6.
constexpr double kLeastCosine = 0.999998;

// Standard base64, padded, as the golden files have it.
std::vector<uint8_t> FromBase64(const std::string& text) {
  constexpr std::string_view kDigits =
      "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
  std::vector<uint8_t> bytes;
  uint32_t bits = 0;
  int count = 0;
  for (const char c : text) {
    const size_t digit = kDigits.find(c);
    if (digit == std::string_view::npos) break;
    bits = bits << 6 | static_cast<uint32_t>(digit);
    count += 6;
    if (count < 8) continue;
    count -= 8;
    bytes.push_back(static_cast<uint8_t>(bits >> count));
  }
  return bytes;
}

std::vector<float> VectorOf(const nlohmann::json& entry) {
  const std::vector<uint8_t> bytes = FromBase64(entry.at("vector").get<std::string>());
  std::vector<float> vector;
  for (size_t i = 0; i + 1 < bytes.size(); i += 2) {
    vector.push_back(FloatFromHalf(static_cast<uint16_t>(bytes[i] | bytes[i + 1] << 8)));
  }
  return vector;
}

double Cosine(std::span<const float> a, std::span<const float> b) {
  double dot = 0;
  double aa = 0;
  double bb = 0;
  for (size_t i = 0; i < a.size(); ++i) {
    dot += double{a[i]} * double{b[i]};
    aa += double{a[i]} * double{a[i]};
    bb += double{b[i]} * double{b[i]};
  }
  return dot / std::sqrt(aa * bb);
}

struct Opened {
  std::unique_ptr<Backend> backend;
  std::unique_ptr<TextEncoder> encoder;
};

Opened OpenEncoder(const fs::path& folder, std::string_view isa, int threads) {
  Opened opened;
  auto backend = Backend::Create(isa, threads);
  CHECK(backend.ok(), "{}", backend.error().Message());
  opened.backend = std::move(backend).value();
  auto encoder = TextEncoder::Open(folder, opened.backend.get());
  CHECK(encoder.ok(), "{}", encoder.error().Message());
  opened.encoder = std::move(encoder).value();
  return opened;
}

// The ids of every text of the golden file, and the vector of each `step`-th; the least cosine.
double ExpectGolden(TextEncoder& encoder, const nlohmann::json& golden, size_t step = 1) {
  double least = 1;
  const auto most = static_cast<size_t>(encoder.encoder().most_tokens());
  for (size_t i = 0; i < golden.size(); ++i) {
    const nlohmann::json& entry = golden[i];
    const auto text = entry.at("text").get<std::string>();
    EXPECT_EQ(encoder.tokenizer().Encode(text, most), entry.at("ids").get<std::vector<TokenId>>())
        << text;
    if (i % step != 0) continue;
    const std::vector<float> expected = VectorOf(entry);
    EXPECT_EQ(expected.size(), static_cast<size_t>(encoder.dim()));
    const std::span<const float> vector = encoder.Encode(text);
    const double cosine = Cosine(vector, expected);
    EXPECT_GE(cosine, kLeastCosine) << text;
    double squares = 0;
    for (const float item : vector) squares += double{item} * double{item};
    EXPECT_NEAR(squares, 1.0, 1e-6);
    least = std::min(least, cosine);
  }
  return least;
}

class EncoderTest : public testing::TestWithParam<const Kernels*> {
 protected:
  static fs::path Tiny() { return Golden("tiny/encoder"); }
  std::string isa() const { return std::string(GetParam()->name); }
};

INSTANTIATE_TEST_SUITE_P(Tables, EncoderTest, testing::ValuesIn(RunnableKernels()),
                         [](const auto& table) { return std::string(table.param->name); });

TEST_P(EncoderTest, TheTinyOneGivesWhatTransformersGive) {
  const nlohmann::json golden = ReadJson(Golden("tiny/encoder.json"));
  ASSERT_GE(golden.size(), 80U);
  const Opened opened = OpenEncoder(Tiny(), isa(), 1);
  EXPECT_EQ(opened.backend->kernels().name, isa());
  ExpectGolden(*opened.encoder, golden);
}

// The law: neither other texts nor threads nor the space change a bit.
TEST_P(EncoderTest, AVectorDependsOnItsTextAlone) {
  const nlohmann::json golden = ReadJson(Golden("tiny/encoder.json"));
  const Opened one = OpenEncoder(Tiny(), isa(), 1);
  const Opened two = OpenEncoder(Tiny(), isa(), 2);
  const Opened three = OpenEncoder(Tiny(), isa(), 3);
  for (const nlohmann::json& entry : golden) {
    const auto text = entry.at("text").get<std::string>();
    const Opened fresh = OpenEncoder(Tiny(), isa(), 1);
    const std::span<const float> expected = fresh.encoder->Encode(text);
    for (const Opened* opened : {&one, &two, &three}) {
      const std::span<const float> vector = opened->encoder->Encode(text);
      ASSERT_TRUE(std::ranges::equal(vector, expected)) << text;
    }
  }
}

TEST_P(EncoderTest, TheOneOfTheMemoryGivesWhatTransformersGive) {
  const std::optional<fs::path> folder = DefaultEncoderPath();
  if (!folder) GTEST_SKIP() << "needs all-minilm-l6-v2: `mooring pull all-minilm-l6-v2`";
  const nlohmann::json golden = ReadJson(Golden("encoder.json"));
  ASSERT_EQ(golden.size(), 200U);
  const Opened opened = OpenEncoder(*folder, isa(), 2);
  EXPECT_EQ(opened.encoder->dim(), 384);
  // The plain kernels take a hundred times as long, and sanitizers ten times more.
  const size_t step = isa() == "ref" ? 10 : 1;
  const double least = ExpectGolden(*opened.encoder, golden, kSanitized ? 10 * step : step);
  std::printf("least cosine 1 - %.1e\n", 1 - least);
}

// A folder of the tiny encoder with one file changed.
class EncoderFolderTest : public testing::Test {
 protected:
  EncoderFolderTest() {
    fs::copy(Golden("tiny/encoder"), folder_.path() / "encoder");
    auto backend = Backend::Create("", 1);
    CHECK(backend.ok());
    backend_ = std::move(backend).value();
  }
  std::string Read(std::string_view name) const {
    return ContentOf(folder_.path() / "encoder" / name);
  }
  void Write(std::string_view name, const std::string& content) const {
    folder_.Write("encoder/" + std::string(name), content);
  }
  void SetConfig(const std::string& from, const std::string& to) const {
    std::string config = ContentOf(Golden("tiny/encoder/config.json"));
    const size_t at = config.find(from);
    ASSERT_NE(at, std::string::npos);
    Write(kFolderConfig, config.replace(at, from.size(), to));
  }
  Error Fault() const {
    const auto opened = TextEncoder::Open(folder_.path() / "encoder", backend_.get());
    EXPECT_FALSE(opened.ok());
    return opened.ok() ? Error{} : opened.error();
  }

  TestFolder folder_;
  std::unique_ptr<Backend> backend_;
};

TEST_F(EncoderFolderTest, SaysWhatIsWrongWithIt) {
  ASSERT_TRUE(TextEncoder::Open(folder_.path() / "encoder", backend_.get()).ok());
  const std::string words = Read(kFolderVocab);
  Write(kFolderVocab, words + "more\n");
  EXPECT_EQ(Fault().what, "the words of the encoder are not those of its weights");
  Write(kFolderVocab, words);

  const std::vector<std::array<std::string, 3>> cases = {
      {"\"hidden_size\": 42", "\"hidden_size\": 45", "word_embeddings"},
      {"\"hidden_size\": 42", "\"hidden_size\": 43", "num_attention_heads"},
      {"\"hidden_size\": 42", "\"hidden_size\": -1", "hidden_size"},
      {"\"hidden_size\": 42", "\"hidden\": 42", "hidden_size"},
      {"\"num_hidden_layers\": 2", "\"num_hidden_layers\": 3", "layer.2"},
      {"\"gelu\"", "\"relu\"", "hidden_act"},
      {"\"absolute\"", "\"relative_key\"", "position_embedding_type"},
      {"1e-12", "0.0", "layer_norm_eps"}};
  for (const auto& [from, to, where] : cases) {
    SetConfig(from, to);
    const Error fault = Fault();
    EXPECT_EQ(fault.kind, ErrorKind::kModelInvalid) << to;
    EXPECT_NE(fault.Message().find(where), std::string::npos) << fault.Message();
    EXPECT_FALSE(fault.expected.empty() || fault.found.empty()) << to;
  }
}

TEST_F(EncoderFolderTest, RefusesWeightsThatWereCutShort) {
  const std::string weights = Read(kFolderWeights);
  for (const size_t size : {size_t{4}, size_t{100}, weights.size() / 2, weights.size() - 1}) {
    Write(kFolderWeights, weights.substr(0, size));
    EXPECT_EQ(Fault().kind, ErrorKind::kModelInvalid) << size;
  }
  fs::remove(folder_.path() / "encoder" / kFolderWeights);
  EXPECT_EQ(Fault().kind, ErrorKind::kNotFound);
}

TEST_F(EncoderFolderTest, IsNoModelThatTalks) {
  auto file = OpenModelFile(folder_.path() / "encoder");
  ASSERT_TRUE(file.ok());
  const auto model = Model::Load(std::move(file).value(), Precision::kF32, backend_.get());
  ASSERT_FALSE(model.ok());
  EXPECT_NE(model.error().what.find("sentence encoder"), std::string::npos);
  auto talks = TextEncoder::Open(Golden("tiny/f32-d32.gguf"), backend_.get());
  ASSERT_FALSE(talks.ok());
  EXPECT_NE(talks.error().what.find("no sentence encoder"), std::string::npos);
}

}  // namespace
}  // namespace mooring::test
