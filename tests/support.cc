#include "tests/support.h"

#include <gtest/gtest.h>

#include <cstdlib>
#include <fstream>
#include <utility>

#include "engine/vocab_from_file.h"
#include "load/catalogue.h"
#include "load/model_store.h"
#include "load/open.h"

namespace mooring::test {

std::filesystem::path Golden(std::string_view name) {
  return std::filesystem::path(MOORING_SOURCE_DIR) / "tests" / "golden" / name;
}

nlohmann::json ReadJson(const std::filesystem::path& path) {
  std::ifstream file(path);
  return nlohmann::json::parse(file);
}

namespace {

// What $`variable` names, else the model of that name in the user's cache.
std::optional<std::filesystem::path> PathOf(const char* variable, std::string_view name) {
  if (const char* path = std::getenv(variable)) return path;
  const Result<ModelStore> store = ModelStore::OfThisUser();
  if (!store.ok()) return std::nullopt;
  Result<std::filesystem::path> found = store->Resolve(std::string(name));
  if (!found.ok()) return std::nullopt;
  return std::move(found).value();
}

}  // namespace

std::optional<std::filesystem::path> DefaultModelPath() {
  return PathOf("MOORING_TEST_MODEL", kDefaultModelName);
}

std::optional<std::filesystem::path> DefaultEncoderPath() {
  return PathOf("MOORING_TEST_ENCODER", "all-minilm-l6-v2");
}

LoadedModel Load(const std::filesystem::path& path, const ModelOptions& options) {
  LoadedModel loaded;
  auto backend = Backend::Create(options.isa, options.threads);
  CHECK(backend.ok(), "{}", backend.error().Message());
  loaded.backend = std::move(backend).value();
  auto file = OpenModelFile(path);
  CHECK(file.ok(), "{}", file.error().Message());
  const auto vocab = ReadVocab(**file);
  CHECK(vocab.ok(), "{}", vocab.error().Message());
  auto tokenizer = Tokenizer::Create(*vocab);
  CHECK(tokenizer.ok(), "{}", tokenizer.error().Message());
  loaded.tokenizer = std::move(tokenizer).value();
  auto model = Model::Load(std::move(file).value(), options.precision, loaded.backend.get());
  CHECK(model.ok(), "{}", model.error().Message());
  loaded.model = std::move(model).value();
  return loaded;
}

std::unique_ptr<Engine> MakeEngine(const LoadedModel& loaded, const EngineOptions& options) {
  auto engine = Engine::Create(loaded.model.get(), loaded.tokenizer.get(), options);
  CHECK(engine.ok(), "{}", engine.error().Message());
  return std::move(engine).value();
}

TurnEnd RunTurn(Engine& engine, ConversationId id, TurnRequest request, Sink* sink) {
  class Watch : public Sink {
   public:
    explicit Watch(Sink* inner) : inner_(inner) {}
    void OnText(std::string_view text) override { inner_->OnText(text); }
    void OnToken(const SampledToken& token) override { inner_->OnToken(token); }
    void OnLogits(LogIndex index, std::span<const float> logits) override {
      inner_->OnLogits(index, logits);
    }
    void OnEnd(TurnEnd end, const TurnStats& stats) override {
      end_ = end;
      inner_->OnEnd(end, stats);
    }
    std::optional<TurnEnd> end_;

   private:
    Sink* inner_;
  };
  Watch watch(sink);
  const Status submitted = engine.Submit(id, std::move(request), &watch);
  CHECK(submitted.ok(), "{}", submitted.error().Message());
  engine.RunUntilIdle(id);
  CHECK(watch.end_.has_value());
  return *watch.end_;
}

std::vector<double> Losses(Engine& engine, std::span<const TokenId> tokens, Sink* also) {
  class LossSink : public Sink {
   public:
    LossSink(const Kernels& kernels, std::span<const TokenId> tokens, Sink* also)
        : kernels_(kernels), tokens_(tokens), also_(also) {}
    void OnLogits(LogIndex index, std::span<const float> logits) override {
      if (also_ != nullptr) also_->OnLogits(index, logits);
      const auto next = static_cast<size_t>(index.value) + 1;
      if (next >= tokens_.size()) return;
      losses_.push_back(kernels_.LogSumExp(logits.data(), static_cast<int64_t>(logits.size())) -
                        static_cast<double>(logits[static_cast<size_t>(tokens_[next])]));
    }
    std::vector<double> losses_;

   private:
    const Kernels& kernels_;
    std::span<const TokenId> tokens_;
    Sink* also_;
  };
  LossSink sink(engine.model().backend().kernels(), tokens, also);
  const auto id = engine.Open();
  CHECK(id.ok(), "{}", id.error().Message());
  TurnRequest request;
  request.tokens.assign(tokens.begin(), tokens.end());
  request.every_logit = true;
  RunTurn(engine, *id, std::move(request), &sink);
  engine.Close(*id);
  return std::move(sink.losses_);
}

}  // namespace mooring::test
