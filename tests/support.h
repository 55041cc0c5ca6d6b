// What tests that cross rooms share: where the data is, and a model with its engine in one line.
#ifndef MOORING_TESTS_SUPPORT_H_
#define MOORING_TESTS_SUPPORT_H_

#include <filesystem>
#include <memory>
#include <nlohmann/json.hpp>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "base/result.h"
#include "engine/engine.h"
#include "kernels/backend.h"
#include "model/model.h"
#include "text/tokenizer.h"

namespace mooring::test {

// Whether this is a build for sanitizers, which is slow.
#ifdef MOORING_DCHECKS
inline constexpr bool kSanitized = true;
#else
inline constexpr bool kSanitized = false;
#endif

// A file under tests/golden.
std::filesystem::path Golden(std::string_view name);
nlohmann::json ReadJson(const std::filesystem::path& path);

// The default model's file: $MOORING_TEST_MODEL, which ./test sets, else the user's cache. Nothing
// when there is none; tests then skip and say so.
std::optional<std::filesystem::path> DefaultModelPath();

// The folder of the encoder that the memory uses: $MOORING_TEST_ENCODER, else the user's cache.
std::optional<std::filesystem::path> DefaultEncoderPath();

struct LoadedModel {
  std::unique_ptr<Backend> backend;
  std::unique_ptr<Model> model;
  std::unique_ptr<const Tokenizer> tokenizer;
};

struct ModelOptions {
  std::string isa = {};  // empty: the best
  int threads = 2;
  Precision precision = Precision::kF32;
};

LoadedModel Load(const std::filesystem::path& path, const ModelOptions& options);
std::unique_ptr<Engine> MakeEngine(const LoadedModel& loaded, const EngineOptions& options);

// Collects everything a turn says.
class RecordingSink : public Sink {
 public:
  void OnText(std::string_view text) override { text_ += text; }
  void OnToken(const SampledToken& token) override { tokens_.push_back(token.token); }
  void OnEnd(TurnEnd end, const TurnStats& stats) override {
    end_ = end;
    stats_ = stats;
  }
  const std::string& text() const { return text_; }
  const std::vector<TokenId>& tokens() const { return tokens_; }
  std::optional<TurnEnd> end() const { return end_; }
  const TurnStats& stats() const { return stats_; }

 private:
  std::string text_;
  std::vector<TokenId> tokens_;
  std::optional<TurnEnd> end_;
  TurnStats stats_;
};

// Submits a turn and steps until it has ended.
TurnEnd RunTurn(Engine& engine, ConversationId id, TurnRequest request, Sink* sink);

// -log p(tokens[i + 1] | tokens[0..i]) for every i but the last, read in chunks of step_rows.
// `also`, if any, gets the logits of every row.
std::vector<double> Losses(Engine& engine, std::span<const TokenId> tokens, Sink* also = nullptr);

}  // namespace mooring::test

#endif  // MOORING_TESTS_SUPPORT_H_
