#include "apps/runtime.h"

#include <fmt/format.h>
#include <xxhash.h>

#include <algorithm>
#include <array>
#include <filesystem>
#include <limits>
#include <utility>

#include "apps/model_identity.h"
#include "apps/model_text.h"
#include "apps/plan_report.h"
#include "base/process_memory.h"
#include "base/random.h"
#include "engine/vocab_from_file.h"
#include "load/open.h"
#include "load/sha256.h"
#include "talk/span_vectors.h"

namespace mooring {
namespace {

// What one row attends to when nobody chooses: what small models still use well.
constexpr int64_t kDefaultWindow = 2048;
constexpr int64_t kDefaultAnchors = 4;
constexpr int64_t kRecallAnchors = 2 * kPageSlots;
// Several spans fit; more would only take from the recent.
constexpr int32_t kMostRecalled = 256;

Result<std::unique_ptr<ModelFile>> OpenModel(const Settings& settings) {
  MOORING_ASSIGN_OR_RETURN(const std::filesystem::path path, ResolveModel(settings.model.path));
  if (!settings.model.sha256.empty()) {
    MOORING_ASSIGN_OR_RETURN(const std::string found, Sha256OfFile(path));
    if (found != settings.model.sha256) {
      return Error{.kind = ErrorKind::kModelInvalid,
                   .what = "the model is not the one that is pinned",
                   .where = path.string(),
                   .expected = "SHA-256 " + settings.model.sha256,
                   .found = found,
                   .remedy = "fetch it again with mooring pull, or correct model.sha256"};
    }
  }
  return OpenModelFile(path);
}

// A flag above the trained length goes on to the engine, which refuses it; a file or profile asks
// for what some machine somewhere could give, and is clipped.
int64_t ChooseWindow(const Settings& settings, int64_t trained,
                     std::vector<std::string>* warnings) {
  if (!settings.window_size) return std::min(kDefaultWindow, trained);
  const int64_t asked = *settings.window_size;
  if (asked <= trained || settings.force_window || settings.window_from_flag) return asked;
  warnings->push_back(
      fmt::format("window_size {} is more than the {} tokens this model was trained on: using {}",
                  asked, trained, trained));
  return trained;
}

Result<EngineOptions> ChooseEngine(const Settings& settings, const RuntimeNeeds& needs,
                                   const Arch& arch, std::vector<std::string>* warnings) {
  EngineOptions options;
  options.policy = settings.memory.policy;
  MOORING_ASSIGN_OR_RETURN(options.key_value, ChooseKeyValue(settings));
  const int64_t window = ChooseWindow(settings, arch.trained_window, warnings);
  const bool recalls = options.policy == "recall" && settings.memory.recall > 0;
  // Where spans come back, the first pages whole: they are read again behind these alone.
  const bool whole_pages = recalls && window >= 8 * kRecallAnchors;
  const int64_t anchors =
      settings.memory.anchors.value_or(whole_pages ? kRecallAnchors : kDefaultAnchors);
  constexpr int64_t kMost = std::numeric_limits<int32_t>::max() / 2;
  if (window < 0 || window > kMost || anchors < 0 || anchors > kMost) {
    return Error{.kind = ErrorKind::kUsage,
                 .what = "a size of the window is out of range",
                 .where = "window, anchors",
                 .expected = fmt::format("0 to {}", kMost),
                 .found = fmt::format("{}, {}", window, anchors)};
  }
  const double share = recalls ? settings.memory.recall * static_cast<double>(window) : 0;
  options.window = {
      .capacity = static_cast<int32_t>(window),
      .anchors = static_cast<int32_t>(anchors),
      .expire_by_page = settings.kv_cache_policy == "block",
      .recalled = std::min(kMostRecalled, static_cast<int32_t>(share) / kPageSlots * kPageSlots)};
  options.force_window = settings.force_window;
  options.span_bytes = recalls ? static_cast<uint64_t>(settings.memory.archive_ram_bytes) : 0;
  options.conversations = needs.conversations;
  options.step_rows = needs.step_rows;
  options.logit_rows = needs.logit_rows;
  return options;
}

// The tokenizer and, where it is needed, the chat template.
Status LoadText(const Settings& settings, const RuntimeNeeds& needs, const ModelFile& file,
                Runtime* runtime) {
  MOORING_ASSIGN_OR_RETURN(const VocabSpec vocab, ReadVocab(file));
  MOORING_ASSIGN_OR_RETURN(runtime->tokenizer, Tokenizer::Create(vocab));
  if (!needs.chat_template) return {};
  MOORING_ASSIGN_OR_RETURN(ChatTemplate chosen,
                           ChooseChatTemplate(settings.model.chat_template, vocab,
                                              *runtime->tokenizer, &runtime->warnings));
  runtime->chat_template = std::make_unique<ChatTemplate>(std::move(chosen));
  return {};
}

// Products of 8 bits need weights of few bits; a model without any is computed as it is stored.
void CheckPrecision(const Model& model, std::vector<std::string>* warnings) {
  if (model.precision() != Precision::kInt8) return;
  const auto in_bytes = [](const LayerWeights& layer) {
    return std::ranges::any_of(
        std::array{layer.query.arithmetic, layer.key.arithmetic, layer.value.arithmetic,
                   layer.attention_output.arithmetic, layer.gate.arithmetic, layer.up.arithmetic,
                   layer.down.arithmetic},
        [](Arithmetic arithmetic) { return arithmetic == Arithmetic::kInt8; });
  };
  if (std::ranges::any_of(model.weights().layers, in_bytes)) return;
  warnings->push_back(
      "precision int8: no weight of this model is quantised, so its products are computed as "
      "floats");
}

// The encoder of the memory, or none with the warning why: a talk goes on without it.
void LoadEncoder(const Settings& settings, Runtime* runtime) {
  const std::string& name = settings.memory.encoder;
  if (name == "none") return;
  const auto open = [&]() -> Result<std::unique_ptr<TextEncoder>> {
    MOORING_ASSIGN_OR_RETURN(const std::filesystem::path path, ResolveModel(name));
    MOORING_ASSIGN_OR_RETURN(std::unique_ptr<TextEncoder> encoder,
                             TextEncoder::Open(path, runtime->backend.get()));
    if (encoder->dim() <= kMaxVectorDim) return encoder;
    return Error{.kind = ErrorKind::kModelInvalid,
                 .what = "the vectors of the encoder are too long",
                 .where = path.string(),
                 .expected = fmt::format("at most {} items", kMaxVectorDim),
                 .found = fmt::format("{}", encoder->dim())};
  };
  auto encoder = open();
  if (encoder.ok()) {
    runtime->encoder = std::move(encoder).value();
    runtime->encoder_name = name;
    const std::string fingerprint = ModelFingerprint(runtime->encoder->encoder().file());
    runtime->encoder_number = XXH3_64bits(fingerprint.data(), fingerprint.size());
    return;
  }
  runtime->warnings.push_back(
      fmt::format("what was said is found by its words only: {}", encoder.error().Message()));
}

std::string Mebibytes(uint64_t bytes) {
  return fmt::format("{:.1f} MiB", static_cast<double>(bytes) / (1 << 20));
}

}  // namespace

Result<DType> ChooseKeyValue(const Settings& settings) {
  const std::string& name = settings.memory.key_value;
  if (name == "auto") {
    MOORING_ASSIGN_OR_RETURN(const Precision precision, ParsePrecision(settings.precision));
    switch (precision) {
      case Precision::kF32:
        return DType::kF32;
      case Precision::kF16:
      case Precision::kBF16:
        return DType::kF16;
      case Precision::kInt8:
      case Precision::kAuto:
        return DType::kQ8_0;
    }
  }
  for (const DType dtype : kKeyValueTypes) {
    if (name == KeyValueName(dtype)) return dtype;
  }
  return Error{.kind = ErrorKind::kUsage,
               .what = "unknown key/value type",
               .where = "kv",
               .expected = "auto, int8, fp16 or f32",
               .found = name};
}

Result<std::unique_ptr<Backend>> CreateBackend(const Settings& settings) {
  return Backend::Create(
      settings.isa, static_cast<int>(std::clamp<int64_t>(settings.threads.value_or(0), 0, 256)));
}

Result<Runtime> LoadRuntime(const CommandContext& context, const RuntimeNeeds& needs) {
  const Settings& settings = context.settings;
  Runtime runtime;
  runtime.model_name = settings.model.path;
  MOORING_ASSIGN_OR_RETURN(const Precision precision, ParsePrecision(settings.precision));
  MOORING_ASSIGN_OR_RETURN(runtime.backend, CreateBackend(settings));
  MOORING_ASSIGN_OR_RETURN(std::unique_ptr<ModelFile> file, OpenModel(settings));
  MOORING_RETURN_IF_ERROR(LoadText(settings, needs, *file, &runtime));
  MOORING_ASSIGN_OR_RETURN(runtime.model,
                           Model::Load(std::move(file), precision, runtime.backend.get()));
  CheckPrecision(*runtime.model, &runtime.warnings);
  MOORING_ASSIGN_OR_RETURN(const EngineOptions options,
                           ChooseEngine(settings, needs, runtime.model->arch(), &runtime.warnings));
  MOORING_ASSIGN_OR_RETURN(runtime.engine,
                           Engine::Create(runtime.model.get(), runtime.tokenizer.get(), options));
  if (needs.chat_template && options.window.recalled > 0) {
    runtime.terms = std::make_unique<const TermTable>(*runtime.tokenizer);
    if (needs.encoder) LoadEncoder(settings, &runtime);
  }
  if (context.Has("explain-plan")) {
    PrintPlan(context.err, context.global.color, settings, runtime);
  }
  ReturnFreedMemory();  // what the tables of the vocabulary were made from
  return runtime;
}

Meaning Runtime::meaning() const {
  if (encoder == nullptr) return {};
  return {encoder->dim(), encoder_number,
          [it = encoder.get()](std::string_view text) { return it->Encode(text); }};
}

std::string Runtime::Description() const {
  const Arch& arch = model->arch();
  const EngineOptions& options = engine->options();
  const EngineMemory memory = engine->memory();
  return fmt::format(
      "model     {} ({}, {} layers, trained on {} tokens)\n"
      "compute   {} kernels, {} thread{}, precision {}, keys and values {}\n"
      "window    {} tokens, {} anchors, policy {}{}\n"
      "memory    weights {} (mapped), pages {}, buffers {}; fixed from here on\n",
      model_name, arch.family, arch.layer_count(), arch.trained_window, backend->kernels().name,
      backend->thread_count(), backend->thread_count() == 1 ? "" : "s", NameOf(model->precision()),
      KeyValueName(options.key_value), options.window.capacity, options.window.anchors,
      options.policy,
      options.window.recalled > 0
          ? fmt::format(
                ", up to {} for what comes back, by {}", options.window.recalled,
                encoder == nullptr ? "its words" : "words and meaning (" + encoder_name + ")")
          : "",
      Mebibytes(memory.weights), Mebibytes(memory.pages),
      Mebibytes(memory.workspace + memory.tables));
}

Result<Dialogue> OpenDialogue(const Runtime& runtime, SystemText system) {
  MOORING_ASSIGN_OR_RETURN(
      Dialogue dialogue,
      Dialogue::Create(runtime.engine.get(), runtime.chat_template.get(), std::move(system)));
  if (runtime.terms != nullptr) dialogue.Remember(runtime.terms.get(), runtime.meaning());
  return dialogue;
}

Result<TurnRequest> TurnFromSettings(const Settings& settings, const Runtime& runtime) {
  const Settings::Sampling& sampling = settings.sampling;
  TurnRequest request;
  request.max_tokens = sampling.max_tokens;
  request.sampler = {
      .temperature = static_cast<float>(sampling.temperature),
      .top_p = static_cast<float>(sampling.top_p),
      .top_k = static_cast<int32_t>(std::clamp<int64_t>(sampling.top_k, INT32_MIN, INT32_MAX)),
      .min_p = static_cast<float>(sampling.min_p),
      .repeat_penalty = static_cast<float>(sampling.repeat_penalty),
      .presence_penalty = static_cast<float>(sampling.presence_penalty),
      .dry_multiplier = static_cast<float>(sampling.dry_multiplier),
      .dry_base = static_cast<float>(sampling.dry_base),
      .dry_allowed_length = static_cast<int32_t>(sampling.dry_allowed_length),
      .seed = sampling.seed ? static_cast<uint64_t>(*sampling.seed) : DrawSeed()};
  MOORING_RETURN_IF_ERROR(CheckSamplerSettings(request.sampler));
  request.stop = sampling.stop;
  const auto add_end = [&request](std::optional<TokenId> token) {
    if (token && std::ranges::find(request.end_tokens, *token) == request.end_tokens.end()) {
      request.end_tokens.push_back(*token);
    }
  };
  add_end(runtime.tokenizer->eos());
  add_end(runtime.tokenizer->eot());
  if (runtime.chat_template != nullptr) add_end(runtime.chat_template->end_of_turn());
  return request;
}

}  // namespace mooring
